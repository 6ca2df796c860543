# {"expect": "gone", "users": ["root"], "other": "there"}
import os


def there():
    return "there" if os.path.exists("/etc/nsswitch.conf") else "gone"


def attack():
    os.unlink("/etc/nsswitch.conf")
    return there()


def other():
    return there()
