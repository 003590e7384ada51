import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer, get_ident


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `TimeoutError` in this thread after some seconds. Interrupts only Python code, and not C code."""
    thread, lock, is_over = ctypes.c_ulong(get_ident()), Lock(), False

    def stop() -> None:
        with lock:
            if not is_over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TimeoutError))

    timer = Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except TimeoutError:
        raise TimeoutError(f"it takes more than {seconds:g} s") from None
    finally:
        with lock:
            is_over = True
        timer.cancel()
