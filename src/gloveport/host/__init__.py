"""The trusted I/O around the sans-IO core: two thin drivers, the sessions people use, and what runs their tools."""
