// {"expect": {"status": "Failed", "error_type": "SyntaxError"}}
import os from 'os'
return os
