"""The driver `gvisor`: machines with a kernel of their own, in user space, whose memory can be written to disk."""
