"""What the views show: rows, orders and buffers without Qt, and the Qt item models on top of them."""
