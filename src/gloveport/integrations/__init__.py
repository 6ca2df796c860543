"""Where gloveport fits into frameworks. Each is loaded on use, and needs its extra."""
