"""The MOSAIC cockpit, its command line and the trainer daemon behind them."""
