"""`submit: diff`: the patch from a folder as `setup` left it to what it is now, as `git apply` takes it.

`patch.py keep FOLDER KEPT` reads the folder before the program, `patch.py print FOLDER KEPT` behind it. KEPT is a folder
that the program never sees. Files are read here and given to git as bytes: git never works in the folder, so nothing in
there is run, and no attribute, filter or setting in it counts. Needs git. It ends with 1 and says why on standard error
where no such patch can be made.
"""

import hashlib
import json
import os
import stat
import subprocess
import sys

MOST = 16 * 2**20
"""Bytes of one file that a patch can be about. Larger ones may be there, but not change."""
NAMED = 5

KEPT, NOW = "refs/heads/kept", "refs/heads/now"


class Unfit(Exception):
    pass


def main(what, folder, kept):
    folder, kept = os.fsencode(folder), os.fsencode(kept)
    try:
        {"keep": keep, "print": show}[what](folder, kept)
    except Unfit as why:
        sys.exit(str(why))
    except OSError as error:
        sys.exit(f"{said(os.fsencode(error.filename or b''))} cannot be read: {error.strerror}")


def keep(folder, kept):
    git(kept, "init", "--quiet", "--bare", "--template=", at(kept, b"git"))
    found = taken(folder, kept, KEPT)
    for path in found["files"]:
        if os.path.basename(path) == b".gitignore":
            copied(at(folder, path), at(kept, b"rules", path))
    with open(at(kept, b"found.json"), "w") as file:
        # Names of files are bytes, for which JSON has no form.
        json.dump({name: [[path.hex(), value] for path, value in of.items()] for name, of in found.items()}, file)


def show(folder, kept):
    with open(at(kept, b"found.json")) as file:
        before = {name: {bytes.fromhex(path): value for path, value in of} for name, of in json.load(file).items()}
    now = taken(folder, kept, NOW, {**before["files"], **before["large"]})
    changed = [path for path in {**before["large"], **now["large"]} if before["large"].get(path) != now["large"].get(path)]
    if changed:
        names = ", ".join(sorted(map(said, changed))[:NAMED])
        raise Unfit(f"expected changes of files up to {MOST // 2**20} MiB, larger ones changed: {names}")
    differing = [KEPT, NOW, "-r", "--no-renames"]
    names = git(kept, "diff-tree", "-z", "--name-only", *differing).split(b"\0")
    # A file that is no UTF-8 goes into the patch as binary.
    binary = [path for path in names if "binary" in (before["files"].get(path), now["files"].get(path))]
    os.makedirs(at(kept, b"git", b"info"), exist_ok=True)
    with open(at(kept, b"git", b"info", b"attributes"), "wb") as file:
        file.writelines(b"%s -diff\n" % quoted(b"/" + escaped(path)) for path in binary)
    shown = ["-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color"]
    git(kept, "diff-tree", *shown, "--src-prefix=a/", "--dst-prefix=b/", *differing, stdout=None)


def taken(folder, kept, ref, before=None):
    """Reads the folder into a tree of git's. Returns {"files": {path: "text" or "binary"}, "large": {path: digest}}.
    `before`: what was there; of what was not, rules of that time leave some out."""
    files, large = {}, {}
    paths = list(entries(folder))
    if before is not None:
        left_out = ignored([path for path in paths if path not in before], kept)
        paths = [path for path in paths if path not in left_out]
    importing = ["fast-import", "--quiet", "--force", "--done"]
    with git_process(kept, *importing, stdin=subprocess.PIPE) as process:
        try:
            process.stdin.write(b"commit %s\ncommitter a <a> 0 +0000\ndata 0\n\n" % ref.encode())
            for path in paths:
                mode, content, digest = read(at(folder, path), None if before is None else before.get(path, ""))
                if digest is not None:
                    large[path] = digest
                    continue
                files[path] = "text" if is_text(content) else "binary"
                head = b"M %s inline %s\ndata %d\n" % (mode, quoted(path), len(content))
                process.stdin.write(head + content + b"\n")
            process.stdin.write(b"done\n")
            process.stdin.close()
        except BrokenPipeError:
            pass
        if process.wait() != 0:
            raise Unfit("git could not read the folder")
    return {"files": files, "large": large}


def entries(folder):
    """Paths of its files and links. Folders of git's, pipes, sockets and devices are left out."""
    pending = [b""]
    while pending:
        within = pending.pop()
        with os.scandir(at(folder, within)) as found:
            for entry in sorted(found, key=lambda entry: entry.name):
                if entry.name.lower() == b".git":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(at(within, entry.name))
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    yield at(within, entry.name)


def read(path, before=None):
    """(mode, content, None) of a file or link; of a large file (mode, None, size and digest). Waits for no other process.
    `before`: its digest, if there was one: one of another size is not read."""
    if stat.S_ISLNK(os.lstat(path).st_mode):
        return b"120000", os.readlink(path), None
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        mode = b"100755" if status.st_mode & stat.S_IXUSR else b"100644"
        if not stat.S_ISREG(status.st_mode):
            raise Unfit(f"{said(path)} changed while it was read")
        if status.st_size <= MOST:
            return mode, file.read(MOST), None
        about = f"{mode.decode()} {status.st_size} "
        if before is not None and not before.startswith(about):
            return mode, None, about
        return mode, None, about + digest_of(file)


def digest_of(file):
    digest = hashlib.sha256()
    while piece := file.read(2**20):
        digest.update(piece)
    return digest.hexdigest()


def ignored(paths, kept):
    """The paths that `.gitignore` files name, as these were before the program."""
    if not os.path.isdir(at(kept, b"rules")):
        return set()
    # A name may begin like a pattern of git's.
    asked = b"".join(b"./%s\0" % path for path in paths)
    of = ["--work-tree", os.fsdecode(at(kept, b"rules")), "check-ignore", "--no-index", "-z", "--stdin"]
    # 1: none of them.
    return {path[2:] for path in git(kept, *of, given=asked, fits=(0, 1)).split(b"\0")}


def git(kept, *arguments, given=None, stdout=subprocess.PIPE, fits=(0,)):
    with git_process(kept, *arguments, stdin=subprocess.PIPE, stdout=stdout) as process:
        output, _ = process.communicate(given)
    if process.returncode not in fits:
        raise Unfit(f"git {' '.join(map(str, arguments[:3]))} failed ({process.returncode})")
    return output


SETTINGS = {"core.compression": "1", "core.excludesFile": "/dev/null", "core.attributesFile": "/dev/null",
            "core.protectHFS": "false", "core.protectNTFS": "false"}  # fmt: skip
"""Names that other systems confuse are names here."""


def git_process(kept, *arguments, **streams):
    """In a folder of its own, with no settings but these."""
    settings = [each for name, value in SETTINGS.items() for each in ("-c", f"{name}={value}")]
    env = {
        "PATH": os.environ["PATH"], "HOME": os.fsdecode(kept), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1",
        "GIT_DIR": os.fsdecode(at(kept, b"git")),
    }  # fmt: skip
    return subprocess.Popen(["git", *settings, *arguments], cwd=kept, env=env, **streams)


def copied(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    mode, content, _ = read(source)
    if mode != b"120000" and content is not None:
        with open(target, "wb") as file:
            file.write(content)


def at(*parts):
    return os.path.join(*parts)


def is_text(content):
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


def escaped(path):
    """As a pattern that only this path fits."""
    return b"".join(b"\\" + bytes([each]) if each in b"*?[\\" else bytes([each]) for each in path)


def quoted(path):
    """As git quotes names."""
    return b'"%s"' % b"".join(b"\\%03o" % each if each < 32 or each > 126 or each in b'"\\' else bytes([each]) for each in path)


def said(path):
    return path.decode("utf-8", "backslashreplace")


if __name__ == "__main__":
    main(*sys.argv[1:])
