"""Environment steps as they travel and are stored: many to a record, in columns.

A *chunk* holds consecutive steps of a run: the numbers of each column side by side, compressed, and a heap for what
does not come with every step or has no fixed size. A worker fills a chunk in a file (:mod:`.open_chunk`), so that the
steps in it survive the death of the worker; when it is full or old enough it becomes one record of the journal
(:class:`mosaic_protocol.events.StepChunk`), which is stored as it is. Nothing here needs NumPy; readers that have it
get arrays.
"""
