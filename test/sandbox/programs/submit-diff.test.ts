import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { skip } from './program-bed.js';
import { bash, played } from './submit-bed.js';

/** `submit: diff`: what git makes of it in a fresh copy is what the program left, and nothing of the folder was run. */

const SETUP =
  'mkdir -p src/deep big; echo one > src/a.py; echo old > src/deep/b.txt; printf "caf\\\\351\\n" > latin; ' +
  'ln -s src/a.py link; printf "*.log\\n/build/\\n" > .gitignore; head -c 20000000 /dev/zero > big/data';

/** What `git apply` makes of a patch in the folder as `setup` leaves it, as a list of files with their contents. */
function applied(t: TestContext, patch: string): string {
  const folder = mkdtempSync('/var/tmp/program-patched-');
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  const run = (script: string, input = ''): string =>
    execFileSync('/bin/bash', ['-c', script], { cwd: folder, input }).toString();
  run(SETUP);
  if (patch !== '') run('git apply --binary --whitespace=nowarn -', patch);
  return run(LIST);
}

const LIST =
  "find . -name .git -prune -o \\( -type f -o -type l \\) -printf '%P %y %m %l ' \\( -type l -printf '\\n' -o -exec sh -c 'cksum < \"$1\"' _ {} \\; \\) | LC_ALL=C sort";
const EVIL =
  'printf "#!/bin/sh\\necho ran >> /rollout/ran\\n" > /tmp/evil; chmod +x /tmp/evil; cp /tmp/evil evil';

/** Beside each: what of the folder is no part of the patch. */
const PROGRAMS: [name: string, program: string, left_out?: string][] = [
  ['nothing', 'true'],
  [
    'text, a new file, a removed one, another mode',
    'echo two >> src/a.py; echo n > new; rm src/deep/b.txt; chmod +x latin',
  ],
  [
    'a binary file, and text that is no UTF-8',
    "printf '\\000\\001' > bin; printf 'th\\351\\n' > latin; printf '\\377\\376' > src/a.py",
  ],
  [
    'names with line feeds, quotes, patterns and bytes that are no text',
    "echo 1 > $'a\\nb\"c'; echo 2 > ':(top)x'; echo 3 > '*'; echo 4 > $'\\377'; echo 5 > ' b '; echo 6 > '\\\\'; printf '\\377' > '[a]?'; echo 7 > 'diff --git a'",
  ],
  [
    'links, out of the folder too, which are links in the patch',
    'ln -s /etc/passwd out; ln -sf /proc/self/root link; rm -r src/deep; ln -s / src/deep',
  ],
  [
    'a folder in the place of a file, and a file in that of a folder',
    'rm -r src/deep latin; echo f > src/deep; mkdir latin; echo d > latin/x',
  ],
  [
    'what its own .gitignore names',
    'echo "*" > .gitignore; echo "*" > src/.gitignore; echo result > result; echo r > src/result',
  ],
  [
    'all but what the .gitignore of setup names',
    'mkdir build; echo b > build/x; echo l > a.log; echo k > kept.txt; rm .gitignore',
    'build/x|a.log',
  ],
  [
    'drivers of attributes, and changes that they would hide',
    `${EVIL}; git init -q; for d in diff.x.textconv diff.x.command filter.x.clean filter.x.process diff.external core.fsmonitor; do git config $d /tmp/evil; done; printf '* diff=x filter=x\\n*.py -diff -text eol=crlf ident working-tree-encoding=UTF-16\\n' > .gitattributes; mkdir -p .git/info; cp .gitattributes .git/info/attributes; echo '$Id$' >> src/a.py`,
  ],
  [
    'hooks and a template of a repository',
    `${EVIL}; git init -q; for h in pre-commit post-index-change post-checkout reference-transaction fsmonitor-watchman; do cp evil .git/hooks/$h; done; git config core.hooksPath /rollout/.git/hooks; echo two >> src/a.py`,
  ],
  [
    'a .git file that leads to a repository elsewhere',
    `${EVIL}; git init -q --bare /tmp/r; git --git-dir=/tmp/r config core.fsmonitor /tmp/evil; echo "gitdir: /tmp/r" > .git; echo two >> src/a.py`,
  ],
  [
    'files of repositories in it, and of submodules',
    `git init -q; git init -q src/sub; echo s > src/sub/s; git -C src/sub -c user.name=a -c user.email=a@b commit -qm x --allow-empty; git add -A 2> /dev/null; printf '[submodule "x"]\\npath=src/sub\\nurl=/rollout\\nupdate=!/tmp/evil\\n' > .gitmodules; mkdir .GIT; echo x > .GIT/config`,
    '.GIT/config',
  ],
  [
    'no pipes, sockets and devices, which nobody waits for',
    'rm src/a.py; mkfifo src/a.py pipe; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'socket\')"; echo n > n',
  ],
  [
    'a repository whose index and settings say that nothing changed',
    'git init -q; git add -A; git update-index --assume-unchanged src/a.py; git config core.fileMode false; git config core.symlinks false; git config core.worktree /tmp; chmod +x src/a.py; echo two >> src/a.py',
  ],
  [
    'carriage returns, white space, long lines, an empty file, and no line feed at the end',
    "printf 'a\\r\\n\\t \\r\\rb \\n\\n\\n' > src/a.py; : > empty; printf 'diff --git a/x b/x\\n--- a/x\\n+++ b/x\\n@@ -1 +1 @@' > quoted; head -c 300000 /dev/zero | tr '\\0' x > long",
  ],
  [
    'files with the size and times that they had',
    "touch -r src/a.py /tmp/t; printf 'two\\n' > src/a.py; touch -r /tmp/t src/a.py",
  ],
];

describe('the patch of a folder', { skip, concurrency: 2 }, () => {
  for (const [name, program, left_out] of PROGRAMS)
    test(`has ${name}`, async (t) => {
      const { exit, submission } = await played(t, {
        run: {
          setup: bash(SETUP),
          command: bash(`( ${program} ) 2>&1 > /dev/null; ${LIST}; test ! -e ran`),
          submit: 'diff',
        },
      });
      assert.equal(exit.code, 0, exit.tail);
      const is = new RegExp(`^(${left_out ?? 'nothing'}) `);
      const of_program = exit.tail.split('\n').filter((line) => !is.test(line));
      assert.equal(
        applied(t, submission ?? ''),
        left_out === undefined ? exit.tail : of_program.join('\n'),
      );
    });

  for (const [name, program, is] of [
    [
      'a large file that changed',
      'echo x >> big/data',
      /^run\.submit: it failed \(exit 1\); it printed at its end: expected changes of files up to 16 MiB, larger ones changed: big\/data$/,
    ],
    ['a new one without a block', 'truncate -s 60000000 sparse', /larger ones changed: sparse$/],
    [
      'more than 1 MiB of it',
      'head -c 1100000 /dev/urandom | base64 > text',
      /^run\.submit: expected at most 1048576 bytes, it printed more$/,
    ],
    [
      'a file that cannot be read',
      'chmod 0 src/a.py',
      /src\/a\.py cannot be read: Permission denied$/,
    ],
    [
      'a folder that cannot be read',
      'chmod 0 .',
      // Where the worker is not root, its watch ends the program before.
      /\/rollout\/? cannot be read: Permission denied$|or could not be measured/,
    ],
  ] as const)
    test(`cannot be had, and its life says so, of ${name}`, async (t) => {
      const { exit, submission } = await played(t, {
        run: {
          setup: bash(SETUP),
          command: bash(program),
          submit: 'diff',
        },
      });
      assert.deepEqual([exit.code === 0, submission], [false, null], exit.tail);
      assert.match(exit.tail, is);
    });

  test('is of an empty folder where nothing sets it up', async (t) => {
    const { submission } = await played(t, {
      run: {
        command: bash('echo a > a; ls -A / | grep -c kept'),
        submit: 'diff',
      },
    });
    assert.match(submission ?? '', /^diff --git a\/a b\/a\nnew file mode 100644\n[^]*\n\+a\n$/);
  });
});
