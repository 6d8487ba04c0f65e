"""Charts as SVG and PNG, from one description. Free of Qt; numpy alone, and Pillow for PNG."""
