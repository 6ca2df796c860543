"""The kit for drivers, as a program: for whoever runs it. Prints what went wrong, as JSON."""

import json
import sys
import traceback
import types
from pathlib import Path

# The kit is written with pytest's names only where pytest runs it.
from gloveport.machines.conformance import DriverSuite
from gloveport.machines.gvisor.driver import GvisorDriver
from gloveport.machines.home import state_root
from gloveport.machines.images.host import host_image

root = state_root(Path(sys.argv[1]))
driver, image, kit, wrong = GvisorDriver(), host_image(root), DriverSuite(), {}
found = driver.probe(root)
if found.isolation == "none":
    wrong["probe"] = found.problem
else:
    for name in [name for name in dir(kit) if name.startswith("test_")]:
        test = getattr(kit, name)
        assert isinstance(test, types.MethodType)
        try:
            test(driver, root, image)
        except BaseException:
            wrong[name] = traceback.format_exc()
    with kit.machine(driver, root, image) as machine:
        who = machine.run("id -u; touch /workspace/f /usr/local/bin/f && stat -c %u /workspace/f").stdout
        if who != "1000\n1000\n":
            wrong["who"] = who
print(json.dumps({"wrong": wrong, "found": found.as_dict(), "left": [p.name for p in (root / "boxes").iterdir()]}))
