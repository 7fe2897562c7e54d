const MIB = 2 ** 20;

/** Code that takes too much: its limits (`LIMITS`) are below what it takes, the machine's far above. */
export const LIMITS = {
  timeout: '2s',
  cpu: '2s',
  memory: '256MiB',
  processes: 16,
  disk: '16MiB',
  max_output: 2000,
};

export interface Excessive {
  name: string;
  code: string;
  /** With nothing to stop it; null where it is a matter of time alone. */
  through: string | RegExp | null;
  /** What stops it here, as the observation says it: one of these. */
  stopped: RegExp;
}

export const EXCESSES: Excessive[] = [
  {
    name: 'forks 300 times',
    code: `import os, time
children = []
for _ in range(300):
    pid = os.fork()
    if pid == 0:
        time.sleep(3)
        os._exit(0)
    children.append(pid)
len(children)`,
    through: '300',
    stopped: /^(BlockingIOError\(11|RuntimeError\('the code started more than 16 processes)/,
  },
  {
    name: 'starts 300 threads',
    code: `import threading
never = threading.Event()
for _ in range(300):
    threading.Thread(target=never.wait, daemon=True).start()
threading.active_count()`,
    through: '301',
    stopped:
      /^(RuntimeError\("can't start new thread"\)|RuntimeError\('the code started more than 16)/,
  },
  {
    name: 'allocates 400 MiB',
    code: `len(bytearray(${400 * MIB}))`,
    through: String(400 * MIB),
    stopped: /^MemoryError\(\)/,
  },
  {
    name: 'allocates 80 MiB in each of 6 children',
    code: `import os, time
children = []
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        block = bytearray(os.urandom(1024) * ${(80 * MIB) / 1024})
        time.sleep(2)
        os._exit(0)
    children.append(pid)
[os.waitpid(pid, 0)[1] for pid in children]`,
    through: '[0, 0, 0, 0, 0, 0]',
    stopped: /^MemoryError\('the code used more than 256 MiB of memory; nothing of this message/,
  },
  {
    // A page of its own in each GiB costs two pages of tables, and is a file's itself.
    name: 'maps a page of a file so far apart that the tables take 480 MiB',
    code: `import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
PROT_READ, MAP_PRIVATE, MAP_FIXED = 1, 2, 0x10
file = os.open('/bin/true', os.O_RDONLY)
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        for n in range(15000):
            page = ctypes.c_void_p((1 << 44) + (n << 30))
            libc.mmap(page, ctypes.c_size_t(4096), PROT_READ, MAP_PRIVATE | MAP_FIXED, file, ctypes.c_long(0))
            ctypes.string_at(page, 1)
        time.sleep(1)
        os._exit(0)
    children.append(pid)
[os.waitpid(pid, 0)[1] for pid in children]`,
    through: '[0, 0, 0, 0]',
    stopped: /^MemoryError\('the code used more than 256 MiB of memory; nothing of this message/,
  },
  {
    name: 'writes 100 MiB in small files',
    code: `import tempfile
folder = tempfile.mkdtemp()
for n in range(100):
    with open(f'{folder}/{n}', 'wb') as file:
        written = file.write(b'x' * ${MIB})
(n + 1) * written`,
    through: String(100 * MIB),
    stopped: /^OSError\((28|'the code wrote more than 16 MiB of files)/,
  },
  {
    name: 'writes 100 MiB into one file',
    code: `import tempfile
with open(tempfile.mkdtemp() + '/file', 'wb') as file:
    for _ in range(100):
        written = file.write(b'x' * ${MIB})
100 * written`,
    through: String(100 * MIB),
    stopped: /^OSError\((27|28|'the code wrote more than 16 MiB of files)/,
  },
  {
    name: 'keeps 100 MiB in files that it has deleted',
    code: `import tempfile, time
files = [tempfile.TemporaryFile() for _ in range(20)]
written = sum(file.write(b'x' * ${5 * MIB}) for file in files)
time.sleep(0.3)
written`,
    through: String(100 * MIB),
    stopped: /^OSError\((28|'the code wrote more than 16 MiB of files)/,
  },
  {
    name: 'makes 8,000 empty files',
    code: `import tempfile, time
folder = tempfile.mkdtemp()
for n in range(8000):
    open(f'{folder}/{n}', 'w').close()
n`,
    through: '7999',
    // A busy machine may need longer than its time for so many.
    stopped: /^(TimeoutError|OSError)\((28|'the code (ran for|wrote more than 16 MiB of files))/,
  },
  {
    name: 'computes for 4 s',
    code: `import time
end = time.monotonic() + 4
while time.monotonic() < end:
    pass
'through'`,
    through: null,
    stopped: /^TimeoutError\('the code (ran for|used) more than 2 s/,
  },
  {
    name: 'sleeps for 4 s',
    code: `import time\ntime.sleep(4)\n'through'`,
    through: null,
    stopped: /^TimeoutError\('the code ran for more than 2 s; nothing of this message/,
  },
  {
    name: 'writes 100 MiB below a name that is no text',
    code: `import os, tempfile, time
folder = os.fsencode(tempfile.mkdtemp()) + b'/\\xff'
os.mkdir(folder)
for n in range(100):
    with open(folder + b'/%d' % n, 'wb') as file:
        written = file.write(b'x' * ${MIB})
time.sleep(0.3)
(n + 1) * written`,
    through: String(100 * MIB),
    stopped: /^OSError\((28|'the code wrote more than 16 MiB of files)/,
  },
  {
    name: 'writes 100 MiB into a folder that has another name at each moment',
    code: `import itertools, os, tempfile, time
home = tempfile.mkdtemp()
os.mkdir(home + '/0')
folder = os.open(home + '/0', os.O_RDONLY)
end = time.monotonic() + 1.5
if os.fork() == 0:
    os.chdir(home)
    for n in itertools.count():
        os.rename(str(n), str(n + 1))
        if time.monotonic() > end:
            os._exit(0)
written = 0
for n in range(100):
    file = os.open(f'file-{n}', os.O_WRONLY | os.O_CREAT, dir_fd=folder)
    written += os.write(file, b'x' * ${MIB})
    os.close(file)
time.sleep(0.3)
for n in range(100):
    os.unlink(f'file-{n}', dir_fd=folder)
os.wait()
written`,
    through: String(100 * MIB),
    stopped: /^OSError\((28|'the code wrote more than 16 MiB of files)/,
  },
  {
    name: 'keeps 100 MiB in deleted files whose path is too long to be read',
    code: `import os, tempfile, time
os.chdir(tempfile.mkdtemp())
for _ in range(30):
    os.mkdir('d' * 200)
    os.chdir('d' * 200)
files = []
for n in range(20):
    files.append(os.open('file', os.O_WRONLY | os.O_CREAT))
    os.unlink('file')
for _ in range(30):
    os.chdir('..')
    os.rmdir('d' * 200)
written = sum(os.write(file, b'x' * ${5 * MIB}) for file in files)
time.sleep(0.3)
written`,
    through: String(100 * MIB),
    stopped: /^OSError\((28|'the code wrote more than 16 MiB of files)/,
  },
  {
    name: 'keeps 100 MiB in deleted files that are only mapped',
    code: `import ctypes, os, tempfile, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
PROT_READ, MAP_PRIVATE = 1, 2
written = 0
for n in range(20):
    file, name = tempfile.mkstemp()
    written += os.write(file, b'x' * ${5 * MIB})
    assert libc.mmap(None, ctypes.c_size_t(4096), PROT_READ, MAP_PRIVATE, file, ctypes.c_long(0))
    os.close(file)
    os.unlink(name)
time.sleep(0.3)
written`,
    through: String(100 * MIB),
    stopped: /^OSError\((28|'the code wrote more than 16 MiB of files)/,
  },
];
