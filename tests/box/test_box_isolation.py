"""What a box cannot reach. Each denial has a control."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.box.client import BoxError, Connection
from tests.box.places import Place, end, state, wait_for

DENIED = {  # a syscall by Python's ctypes: number on x86_64, arguments
    "unshare(CLONE_NEWUSER)": (272, 0x10000000),
    "setns": (308, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "io_uring_setup": (425, 1, 0),
    "keyctl": (250, 0, 0, 0, 0, 0),
    "userfaultfd": (323, 0),
    "perf_event_open": (298, 0, 0, 0, 0, 0),
    "personality(ADDR_NO_RANDOMIZE)": (135, 0x0040000),
    "open_by_handle_at": (304, 0, 0, 0),
    "ioctl(TIOCSTI)": (16, 0, 0x5412, 0),
    "ioctl(TIOCSTI with high bits)": (16, 0, 0xFFFFFFFF00005412, 0),
    "clone(CLONE_NEWUSER)": (56, 0x10000000 | 17, 0, 0, 0, 0),
}
CALL = (
    "import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); "
    "r=l.syscall(*map(ctypes.c_long,map(int,sys.argv[1:]))); print(r,ctypes.get_errno())"
)


def python(connection: Connection, *arguments: str, **fields: object) -> str:
    done = connection.run("python3", "-c", *arguments, **fields)
    assert done["exit_code"] == 0, done
    return done["stdout"].decode().strip()


def test_the_root_has_nothing_of_the_host_beside_or_over_it(connection: Connection, shared: Path) -> None:
    assert (
        connection.sh("ls -di / /.. /../..")["stdout"].split()[::2]
        == [connection.sh("ls -di /")["stdout"].split()[0]] * 3
    )
    assert connection.sh("ls /../home")["stdout"] == b"user\n"
    mounts = connection.sh("cat /proc/self/mountinfo")["stdout"].decode().splitlines()
    places = [line.split()[4] for line in mounts]
    assert len([place for place in places if place == "/"]) == 1
    assert not [line for line in mounts if str(shared.parent) in line.split()[4]]
    allowed = ("/", "/usr", "/usr/local", "/proc", "/dev", "/run")
    assert all(place in allowed or place.startswith(("/proc/", "/dev/")) for place in places), places


MOUNTS = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=0755 none "$1/tree"
mkdir "$1/tree/folder" "$1/tree/folder/deep"
echo visible > "$1/tree/file"; echo under > "$1/tree/one file"; echo beneath > "$1/tree/folder/beneath"
echo secret > "$1/secret"; chmod 644 "$1/secret"
mount -t tmpfs -o mode=0755 none "$1/tree/folder"
mkdir "$1/tree/folder/deep"; echo secret > "$1/tree/folder/secret"
mount -t tmpfs -o mode=0755 none "$1/tree/folder/deep"; echo secret > "$1/tree/folder/deep/secret"
mount --bind "$1/secret" "$1/tree/one file"
shift
exec "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are made by root")
def test_what_is_mounted_below_a_bound_directory_stays_outside(place: Place) -> None:
    base = place.root / f"bound{place.uid}"
    (base / "tree").mkdir(parents=True)
    folder = place.directory(bind_ro=["/usr:/usr", f"{base}/tree:/opt/tree"])
    command = [
        *("unshare", "-m", "sh", "-c", MOUNTS, "sh", str(base)),
        *place.prefix,
        str(place.program),
        "run",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    try:
        with Connection(folder) as client:
            assert client.sh("cat /opt/tree/file")["stdout"] == b"visible\n"  # the control: the tree itself is there
            assert client.sh("ls -A /opt/tree/folder")["stdout"] == b""
            assert (
                client.sh("cat '/opt/tree/one file' /opt/tree/folder/secret /opt/tree/folder/deep/secret")["stdout"]
                == b""
            )
            assert client.sh("umount -l /opt/tree/folder || umount /opt/tree/folder")["exit_code"] != 0
    finally:
        end(folder)
        shutil.rmtree(base)


def test_ways_out_of_a_root_directory(connection: Connection, place: Place) -> None:
    """chroot(2) from a deeper directory with one above it open: classic, and of no use where nothing lies above."""
    if place.uid:
        assert python(connection, "import os\ntry: os.chroot('/tmp')\nexcept OSError as e: print(e.errno)") == "1"
        return
    escape = (
        "import os\nabove=os.open('/',os.O_RDONLY); os.makedirs('/tmp/deep',exist_ok=True); os.chroot('/tmp/deep'); os.fchdir(above)\n"
        "for i in range(40): os.chdir('..')\nos.chroot('.'); print(sorted(os.listdir('/home')), os.path.exists('/sys/kernel'))"
    )
    assert python(connection, escape, user="root") == "['user'] False"


def test_descriptors_and_roots_of_other_processes_lead_nowhere(connection: Connection, place: Place) -> None:
    for user in [{}] if place.uid else [{}, {"user": "root"}]:
        for path in (
            "/proc/1/root/",
            "/proc/1/cwd/",
            "/proc/1/fd/0",
            "/proc/1/fd/3",
            "/proc/1/fd/4",
            "/proc/1/map_files",
            "/proc/1/task/1/fd/3",
        ):
            assert connection.run("ls", path, **user)["exit_code"] != 0, path
        assert connection.sh("ls /proc/$$/root/home", **user)["stdout"] == b"user\n"  # the control: one's own
        taken = "import ctypes,os; l=ctypes.CDLL(None,use_errno=True); f=os.pidfd_open(1); print(l.syscall(438,f,3,0), ctypes.get_errno())"
        assert python(connection, taken, **user) == "-1 1"  # pidfd_getfd
        write = "import ctypes\nl=ctypes.CDLL(None,use_errno=True)\nb=ctypes.create_string_buffer(8)\n"
        write += (
            "v=(ctypes.c_void_p*2)(ctypes.addressof(b),8); print(l.process_vm_readv(1,v,1,v,1,0), ctypes.get_errno())"
        )
        assert python(connection, write, **user) == "-1 1"
    pids = connection.sh("ls -d /proc/[0-9]* | wc -l")["stdout"]
    assert int(pids) < 10  # processes of the host are not among them


def test_files_of_the_host_cannot_be_named(connection: Connection, shared: Path) -> None:
    for path in (str(shared), "/etc/shadow", "/sys", "/root/.bashrc", "/etc/debian_version"):
        assert os.path.exists(path) or path == "/root/.bashrc"
        assert connection.run("ls", path)["exit_code"] != 0, path


@pytest.mark.parametrize("name", DENIED)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")
def test_system_calls_that_are_refused(connection: Connection, name: str) -> None:
    result, error = python(connection, CALL, *map(str, DENIED[name])).split()
    assert (result, error) == ("-1", "1"), name  # EPERM


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")
def test_system_calls_that_are_not(connection: Connection) -> None:
    assert python(connection, CALL, "39").split()[0] != "-1"  # getpid
    assert python(connection, CALL, "435", "0", "0") == "-1 38"  # clone3: ENOSYS, so that C libraries use clone
    assert python(connection, CALL, "135", str(0xFFFFFFFF)).split()[0] == "0"  # personality: only asked


def test_address_families(connection: Connection) -> None:
    tried = "import socket\nfor f,t,p in ((1,1,0),(2,1,0),(10,2,0),(16,3,0),(16,3,9),(17,3,0),(38,5,0),(40,1,0)):\n"
    tried += "  try: socket.socket(f,t,p).close(); print('ok',end=' ')\n  except OSError as e: print(e.errno,end=' ')"
    assert python(connection, tried) == "ok ok ok ok 97 97 97 97"
    pairs = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor f in (1, 2, 16, 30, 38, 40):\n"
    pairs += "  print(libc.socketpair(f, 1, 0, (ctypes.c_int * 2)()) and ctypes.get_errno(), end=' ')"
    assert python(connection, pairs) == "0 97 97 97 97 97"


def test_the_network_is_only_its_own_loopback(connection: Connection) -> None:
    assert connection.sh("cat /proc/net/dev | tail -n +3 | cut -d: -f1")["stdout"].split() == [b"lo"]
    tried = "import socket\ns=socket.socket(); s.settimeout(2)\ntry: s.connect(('192.0.2.1',80)); print('in')\n"
    tried += "except OSError as e: print(e.errno)"
    assert python(connection, tried) == "101"
    own = "import socket; s=socket.create_server(('127.0.0.1',0)); c=socket.create_connection(s.getsockname()); print('ok')"
    assert python(connection, own) == "ok"


def test_proc_shows_little_and_takes_nothing(connection: Connection, place: Place) -> None:
    for user in [{}] if place.uid else [{}, {"user": "root"}]:
        assert (
            connection.sh(
                "cat /proc/kcore /proc/timer_list /proc/keys /proc/kallsyms /proc/interrupts 2>/dev/null", **user
            )["stdout"]
            == b""
        )
        assert connection.sh("ls /proc/acpi /proc/scsi 2>/dev/null | grep -v :; true", **user)["stdout"].strip() == b""
        refused = connection.sh(
            "echo 1 > /proc/sys/kernel/randomize_va_space; echo h > /proc/sysrq-trigger; echo x > /proc/sys/kernel/hostname",
            **user,
        )
        assert (
            refused["stderr"].count(b"nonexistent")
            + refused["stderr"].count(b"ermission denied")
            + refused["stderr"].count(b"Read-only")
            >= 2
        )
        assert connection.run("hostname", **user)["stdout"] == b"sandbox\n"
    assert connection.sh("cat /proc/sys/kernel/pid_max")["exit_code"] == 0


def test_the_first_process_cannot_be_read_or_stopped(connection: Connection, place: Place) -> None:
    for user in [{}] if place.uid else [{}, {"user": "root"}]:
        assert (
            connection.sh("cat /proc/1/environ /proc/1/maps || ls /proc/1/fd || cat /proc/1/mem", **user)["exit_code"]
            != 0
        )
        connection.sh("kill -9 1; kill -STOP 1; kill -TERM 1", **user)
        traced = "import ctypes; l=ctypes.CDLL(None,use_errno=True); print(l.ptrace(16,1,0,0), ctypes.get_errno())"
        assert python(connection, traced, **user) == "-1 1"
        own = "import ctypes,os,time\np=os.fork()\nif not p: time.sleep(9)\nl=ctypes.CDLL(None); print(l.ptrace(16,p,0,0)); os.kill(p,9)"
        assert python(connection, own, **user) == "0"  # the control: a debugger works
    assert connection.run("true")["exit_code"] == 0


def test_root_of_the_box_is_weak(connection: Connection, place: Place) -> None:
    if place.uid:
        pytest.skip("an ordinary user has one id to give")
    status = connection.sh("grep Cap /proc/self/status", user="root")["stdout"].decode()
    assert {line.split()[0]: int(line.split()[1], 16) for line in status.splitlines()} == {
        "CapInh:": 0,
        "CapPrm:": 0x404FB,
        "CapEff:": 0x404FB,
        "CapBnd:": 0x404FB,
        "CapAmb:": 0,
    }
    assert connection.sh("mknod /tmp/n c 1 3", user="root")["exit_code"] != 0
    assert connection.sh("chown 5:5 /usr/local/bin && chown 0:0 /usr/local/bin", user="root")["exit_code"] == 0
    assert connection.sh("touch /usr/bin/x", user="root")["exit_code"] != 0
    assert connection.sh("echo x > /usr/local/bin/tool && rm /usr/local/bin/tool", user="root")["exit_code"] == 0


def test_a_setuid_program_gives_nothing(connection: Connection, place: Place) -> None:
    assert connection.sh("grep NoNewPrivs /proc/self/status")["stdout"].split()[1] == b"1"
    if not place.uid:
        connection.sh("cp /usr/bin/id /var/id && chmod 4755 /var/id", user="root")
        assert connection.run("/var/id", "-u")["stdout"] == b"1000\n"
        connection.sh("rm /var/id", user="root")


def test_the_box_of_root_is_nobody_outside(place: Place, shared: Path) -> None:
    status = Path(f"/proc/{state(shared)['pid1']}/status").read_text()
    uid = int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1])
    assert uid == (place.uid or 1879048192)


def test_memory_file_systems_have_caps(connection: Connection) -> None:
    assert connection.sh("head -c 80000000 /dev/zero > /dev/shm/x")["exit_code"] != 0
    assert connection.sh("rm /dev/shm/x; head -c 30000000 /dev/zero > /dev/shm/x && rm /dev/shm/x")["exit_code"] == 0
    assert (
        b"No space"
        in connection.sh("mkdir /dev/shm/d; cd /dev/shm/d; seq 9000 | xargs touch; cd ..; rm -r d")["stderr"]
    )


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"version": 2}, "version"),
        ({"lower": None}, "lower"),
        ({"nonsense": 1}, "nonsense"),
        ({"uid": -1}, "uid"),
        ({"upper": "tmpfs:x"}, "upper"),
        ({"tmpfs": "/x:1777"}, "tmpfs"),
        ({"lower": "/does/not/exist"}, "stage=lower"),
        ({"bind_ro": "/does/not/exist:/x"}, "stage=bind_ro"),
        ({"bind_ro": "/usr:/../x"}, "stage=binds"),
        ({"cgroup": "/does/not/exist"}, "stage=cgroup"),
        ({"map_uid": None, "uid_base": None, "uid_count": None}, "uid"),
    ],
)
def test_a_box_that_cannot_be_as_asked_is_refused(place: Place, keys: dict[str, object], word: str) -> None:
    folder = place.directory(**keys)
    done = place.start(folder)
    assert done.returncode == 1 and done.stdout == "" and word in done.stderr, done
    wait_for(lambda: not [pid for pid in os.listdir("/proc") if pid.isdigit() and str(folder) in _arguments(pid)])


def _arguments(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_box_runs_once(place: Place, shared: Path) -> None:
    again = place.start(shared)
    assert again.returncode == 1 and "stage=lock" in again.stderr
    with Connection(shared) as client, pytest.raises(BoxError):
        client.run("true", cwd="relative")


def test_root_never_gives_its_own_id(place: Place) -> None:
    folder = (
        place.directory(map_uid=0, uid_base=None, uid_count=None)
        if place.uid == 0
        else place.directory(uid_base=5, uid_count=65536)
    )
    done = place.start(folder)
    assert done.returncode == 1 and "stage=refused" in done.stderr


def test_a_layer_in_memory(place: Place) -> None:
    with place.box(upper="tmpfs:2000000:500") as folder, Connection(folder) as client:
        assert client.sh("echo x > /workspace/f; cat /workspace/f")["stdout"] == b"x\n"
        assert b"No space" in client.sh("head -c 4000000 /dev/zero > /workspace/big")["stderr"]
        assert not (folder / "upper").exists()


def test_a_layer_cannot_lead_a_mount_elsewhere(place: Place) -> None:
    """A link in an image where a mount is to be: refused, not followed."""
    layer = place.root / f"evil{place.uid}"
    layer.mkdir()
    (layer / "run").symlink_to("/usr")
    if place.uid:
        os.chown(layer, place.uid, place.uid)
    folder = place.directory(lower=[str(layer), str(place.layer)])
    done = place.start(folder)
    assert done.returncode == 1 and "stage=tmpfs" in done.stderr
