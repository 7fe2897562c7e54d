"""Removes a folder that hostile code has filled: any names, any modes, any depth, links to other places.

It follows no link, and reads only names in the folder.
"""

import errno
import fcntl
import json
import os
import stat
import sys

import confine

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

PASSES = 3
"""Something that is still being written may need a second try."""


def opened(name, within=None):
    """A folder, made writable first: its owner may do so whatever its mode is."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=within, follow_symlinks=False)
        return os.open(name, FOLDER, dir_fd=within)
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_IMODE(mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        return os.open(".", FOLDER, dir_fd=handle)
    finally:
        os.close(handle)


def hold(folder):
    """Open and locked while this process lives, so no other process takes it for an abandoned one."""
    file = opened(folder)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def remove(folder, file):
    """None once it is gone, else the first error. `file` is the folder, open."""
    for _ in range(PASSES):
        error = empty(file)
        if error is None:
            break
    left = attempt(os.rmdir, folder)
    return left and (error or left)


def empty(file):
    """Needs two descriptors at any depth. Returns None, or the first error; everything removable is removed."""
    here, above, errors = os.dup(file), [], []
    try:
        names = iter(os.listdir(here))
        while True:
            name = first_full(names, here, errors)
            if name is not None:
                try:
                    below = opened(name, here)
                except OSError as error:
                    errors.append(error)
                    continue
                above.append((identity(here), names, name))
                here = instead(here, below)
                names = iter(os.listdir(here))
            elif above:
                expected, names, name = above.pop()
                here = instead(here, os.open("..", FOLDER, dir_fd=here))
                if identity(here) != expected:
                    errors.append(OSError(errno.EBUSY, "it changes while it is removed"))
                    break
                errors.append(attempt(os.rmdir, name, here))
            else:
                break
    except OSError as error:
        errors.append(error)
    finally:
        os.close(here)
    return next(filter(None, errors), None)


def first_full(names, here, errors):
    """The first of these names that is a folder with something in it; what comes before it is removed. None: no more names."""
    for name in names:
        error = attempt(os.unlink, name, here)
        # A folder is EISDIR on Linux, EPERM elsewhere.
        if error is not None and error.errno in (errno.EISDIR, errno.EPERM):
            error = attempt(os.rmdir, name, here)
            if error is not None and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return name
        if error is not None:
            errors.append(error)
    return None


def attempt(remover, name, within=None):
    """Returns the exception; a missing file counts as removed."""
    try:
        remover(name, dir_fd=within)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error


def instead(file, other):
    os.close(file)
    return other


def identity(file):
    status = os.fstat(file)
    return status.st_dev, status.st_ino


def main(hello):
    """Says {"left"} of the folder `hello["folder"]`: null (it is gone), "in use", or why not. With `confined` it has
    rights to nothing else, as far as this kernel has Landlock."""
    folder = hello["folder"]
    try:
        file = hold(folder)
        if hello["confined"] and confine.landlock_abi() > 0:
            confine.landlock([(folder, confine.WORK), (os.path.dirname(folder), confine.REMOVE_DIR)])
        error = remove(folder, file)
    except FileNotFoundError:
        error = None
    except BlockingIOError:
        error = "in use"
    except OSError as problem:
        error = problem
    # Without the name, which comes from the code.
    json.dump({"left": error.strerror if isinstance(error, OSError) else error}, sys.stdout)
