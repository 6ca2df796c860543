# What is used of deepagents (0.6 and 0.7). It brings some forty packages along, too many for checking types.
