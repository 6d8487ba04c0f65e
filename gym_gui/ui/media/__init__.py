"""What event files hold beside numbers, on the screen: histograms, images, texts; and the clips of a training."""
