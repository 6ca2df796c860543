"""Machines: isolated Linux boxes with a shell and files. What makes them (`namespace`), what speaks to them, where they are kept.

The classes that applications use are `gloveport.Sandbox` and `gloveport.AsyncSandbox`, in `gloveport.host.machines`.
"""
