"""Scalars at full resolution: TensorBoard's event files, read and written without TensorBoard, and foreign log folders
made into runs. Needs no Qt; reading needs numpy."""
