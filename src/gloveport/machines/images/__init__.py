"""What a machine's root is made of: layers, which are read-only folders named after what is in them."""
