# {"expect": {"namespace": "SIGSYS", "gvisor": "fails"}, "outside": "works", "machine": "x86_64"}
# `int 0x80` reaches the kernel by numbers of 32 bits: a filter that knows those of 64 only sees others than are meant.
import ctypes
import mmap

CODE = bytes.fromhex(
    "53 89f8 89f3 cd80 5b c3".replace(" ", "")
)  # push rbx; mov eax,edi; mov ebx,esi; int 0x80; pop rbx; ret


def attack():
    place = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    place.write(CODE)
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(
        ctypes.addressof(ctypes.c_char.from_buffer(place))
    )
    return "works" if function(20, 0) > 0 else "fails"  # getpid
