"""Type checking of model code by the native TypeScript compiler: an optional part, installed by `gloveport install typecheck`.

`Checker` is what the host uses; `install` fetches the compiler; everything between is one resident, jailed process per host process
that speaks the Language Server Protocol 3.17 and sees no file but its own.
"""

from gloveport.engines.checker.client import Checker, CheckerBusyError, Question

__all__ = ("Checker", "CheckerBusyError", "Question")
