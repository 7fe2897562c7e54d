import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { skip } from './program-bed.js';
import { bash, hiddenTests, played, SECRET } from './submit-bed.js';

/**
 * What hostile programs leave for `submit` to find. Each would read what is hidden, or have a wrong answer called right,
 * if something of theirs ran there or led there.
 */

/** What a trap does where it runs, as Python and as a shell's. */
const FORGED = '{"right": true}';
const PYTHON = `import os, sys\\nos.write(1, b'${FORGED} ')\\nos._exit(0)\\n`;
const SHELL = `#!/bin/sh\\necho '${FORGED}'\\nexit 0\\n`;
/** Wherever a home may be. */
const HOMES = '"$HOME" /rollout /tmp /tmp/home /dev/shm';
const everywhere = (script: string): string =>
  `echo guess > /rollout/answer; for home in ${HOMES}; do mkdir -p "$home" && cd "$home" && { ${script}; }; done`;
const site = (name: string, text: string): string =>
  `for v in 3.9 3.10 3.11 3.12 3.13; do s=.local/lib/python$v/site-packages; mkdir -p $s; printf "${text}" > $s/${name}; done`;

interface Attack {
  name: string;
  program: string;
  submit?: (hidden: string) => string[];
  /** Default: what the grader honestly says of a wrong answer. */
  says?: RegExp;
  /** Of `submit`. */
  limit?: string;
  /** What the life fails with. */
  fails?: RegExp;
}

const WRONG = /^\{"right": false\}\n$/;
const NOTHING_THERE = /such file or directory/i;
const reads =
  (...argv: string[]) =>
  (hidden: string): string[] =>
    argv.map((one) => one.replaceAll('HIDDEN', hidden));

const ATTACKS: Attack[] = [
  {
    name: 'usercustomize in the site of a home',
    program: everywhere(site('usercustomize.py', PYTHON)),
  },
  {
    name: 'a .pth in the site of a home',
    program: everywhere(site('a.pth', PYTHON.replaceAll('\\n', ';'))),
  },
  {
    name: 'modules where python3 -m looks first',
    program: everywhere(
      `for m in sitecustomize usercustomize json subprocess unittest; do printf "${PYTHON}" > $m.py; done`,
    ),
    submit: reads(
      'sh',
      '-c',
      'python3 -m unittest --help > /dev/null || echo ran true; python3 -m json.tool --help | grep -c right; python3 HIDDEN/grade.py {folder}',
    ),
    says: /^0\n\{"right": false\}\n$/,
  },
  {
    name: 'a module where python3 -c looks first',
    program: everywhere(`printf "${PYTHON}" > json.py`),
    submit: reads('python3', '-c', 'import json; print(json.dumps({"right": False}))'),
  },
  {
    name: 'conftest, pytest.ini and a test of the same name',
    program: everywhere(
      `for m in conftest pytest test_all; do printf "${PYTHON}" > $m.py; done; printf '[pytest]\\naddopts=-p conftest\\n' > pytest.ini`,
    ),
    submit: reads('python3', '-m', 'unittest', 'discover', '-s', 'HIDDEN', '-p', 'none*.py'),
    says: /^$/,
    fails: /^(run\.submit: it failed \(exit 5\)[^]*)?$/,
  },
  {
    name: 'git, python3 and bash on a PATH of its own',
    program: everywhere(
      `for d in bin .local/bin .; do mkdir -p $d; for p in git python3 bash cat; do printf "${SHELL}" > $d/$p; chmod +x $d/$p; done; done; for f in .profile .bashrc; do echo "PATH=$home/bin:.:$PATH" > $f; done`,
    ),
    submit: reads('bash', '-lc', 'python3 HIDDEN/grade.py {folder}'),
  },
  {
    name: 'what shells read at their start',
    program: everywhere(
      `for f in .profile .bash_profile .bashrc .bash_login .zshenv .pam_environment .ssh/environment; do mkdir -p .ssh; printf "${SHELL}" > $f; done`,
    ),
    submit: reads('bash', '-lic', 'python3 HIDDEN/grade.py {folder} 2> /dev/null'),
  },
  {
    name: 'git config of a home: an external diff, a pager, hooks',
    program: everywhere(
      `printf "${SHELL}" > /rollout/evil; chmod +x /rollout/evil; printf '[diff]\\nexternal=/rollout/evil\\n[core]\\npager=/rollout/evil\\nfsmonitor=/rollout/evil\\nhooksPath=/rollout\\n' > .gitconfig; mkdir -p .config/git; cp .gitconfig .config/git/config`,
    ),
    submit: reads(
      'sh',
      '-c',
      'git diff --no-index {folder}/answer HIDDEN/expected | grep right; python3 HIDDEN/grade.py {folder}',
    ),
  },
  {
    name: 'git config of a repository in the folder',
    program: `cd /rollout && git init -q && printf "${SHELL}" > evil && chmod +x evil && git config diff.external /rollout/evil && git config core.fsmonitor /rollout/evil && echo guess > answer && git add -N answer`,
    submit: reads(
      'sh',
      '-c',
      'git status 2>&1 | grep -c "not a git repository"; git diff 2> /dev/null | grep right; python3 HIDDEN/grade.py {folder}',
    ),
    says: /^1\n\{"right": false\}\n$/,
  },
  {
    name: 'a .git file that leads to a repository elsewhere',
    program: everywhere(
      `git init -q --bare /rollout/r; git --git-dir=/rollout/r config core.worktree /rollout; git --git-dir=/rollout/r config diff.external /rollout/evil; printf "${SHELL}" > /rollout/evil; chmod +x /rollout/evil; rm -rf .git; echo 'gitdir: /rollout/r' > .git; git add -N answer`,
    ),
    submit: reads(
      'sh',
      '-c',
      'git diff 2> /dev/null | grep right; python3 HIDDEN/grade.py {folder}',
    ),
  },
  {
    name: 'a library for LD_PRELOAD, in files that set variables',
    program: everywhere(
      `printf '#include <unistd.h>\\n#include <stdlib.h>\\n__attribute__((constructor)) void f(void){write(1,"FORGED",6);_exit(0);}' > /rollout/e.c; cc -shared -fPIC -o /rollout/e.so /rollout/e.c; for f in .environment .pam_environment .profile .bashrc .env; do echo "export LD_PRELOAD=/rollout/e.so" > $f; done; cp /rollout/e.so libc.so.6; echo /rollout/e.so > /etc/ld.so.preload`,
    ),
    submit: reads('bash', '-lc', 'python3 HIDDEN/grade.py {folder}'),
  },
  {
    name: 'an answer that is a link to the hidden tests',
    program: `ln -s HIDDEN/expected /rollout/answer`,
    fails: /symbolic links/,
  },
  {
    name: 'a folder that is a link, and one through /proc',
    program: `ln -s /proc/self/root/HIDDEN /rollout/tests; ln -s / /rollout/root; ln -s /proc/self/fd/3 /rollout/answer`,
    fails: /symbolic links/,
  },
  {
    name: 'a pipe in the place of the answer',
    program: 'mkfifo /rollout/answer',
    limit: '2s',
    fails: /^run\.submit: expected it to end within limits\.submit 2s, it did not$/,
  },
  {
    name: 'a device in the place of the answer',
    program: 'mknod /rollout/answer c 1 5 || echo guess > /rollout/answer',
  },
  {
    name: 'a socket in the place of the answer',
    program: `cd /rollout && python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('answer')"`,
    fails: /No such device or address/,
  },
  {
    name: 'a sparse file of 60 MB in the place of the answer',
    program: 'truncate -s 60000000 /rollout/answer',
    submit: reads('cat', '{folder}/answer'),
    fails: /^run\.submit: expected at most 1048576 bytes, it printed more$/,
  },
  {
    name: 'a process in the background that rewrites the answer while it is read',
    program: `cd /rollout; echo guess > answer; (trap '' HUP TERM INT; cd /; setsid env -i /bin/bash -c 'while :; do cat HIDDEN/expected > /rollout/answer; echo guess > /rollout/answer.new; mv /rollout/answer.new /rollout/answer; done' > /dev/null 2>&1 &) ; sleep 0.3; echo guess > answer`,
    submit: reads(
      'sh',
      '-c',
      'sleep 1; find {folder} -newermt "-0.9 seconds" | wc -l; ps ax 2>/dev/null | grep -c "[a]nswer.new"; true',
    ),
    says: /^0\n0\n$/,
  },
  {
    name: 'what is left in /tmp, /dev/shm, shared memory and abstract sockets',
    program: `echo x > /tmp/left; echo x > /dev/shm/left; ipcmk -M 4096 > /dev/null; echo guess > /rollout/answer`,
    submit: reads('sh', '-c', 'ls -A /tmp /dev/shm /tmp/home; ipcs -m | grep -c 0x'),
    says: /^\/dev\/shm:\n\n\/tmp:\nhome\n\n\/tmp\/home:\n0\n$/,
    fails: /^(run\.submit: it failed \(exit 1\)[^]*)?$/,
  },
  {
    name: 'hidden tests that it looks for itself',
    program:
      'ls HIDDEN; cat HIDDEN/expected; find / -name expected -not -path "/proc/*" 2> /dev/null; echo guess > /rollout/answer',
  },
  {
    name: 'settings of npm, and modules of Node.js',
    program: everywhere(
      `printf 'script-shell=/rollout/evil\\n' > .npmrc; mkdir -p node_modules/one .node_modules/one; printf "process.stdout.write('${FORGED}')" > e.js; cp e.js node_modules/one/index.js; cp e.js .node_modules/one/index.js`,
    ),
    submit: reads(
      'sh',
      '-c',
      'npm config get script-shell; node -e "require(\'one\')" 2> /dev/null; python3 HIDDEN/grade.py {folder}',
    ),
    says: /^null\n\{"right": false\}\n$/,
  },
  {
    name: 'a call to the policy from what it left',
    program: `cd /rollout; echo guess > answer; printf '#!/bin/bash\\nexec 3<> /dev/tcp/127.0.0.1/8088 && echo asked || echo refused\\n' > ask; chmod +x ask`,
    submit: reads(
      'sh',
      '-c',
      '{folder}/ask 2> /dev/null; env | grep -c -e API_KEY -e BASE_URL -e rollout.v1; true',
    ),
    says: /^refused\n0\n$/,
  },
];

describe('what a hostile program leaves for submit', { skip, concurrency: 2 }, () => {
  const endings: (() => void)[] = [];
  let hidden = '';
  before(() => {
    hidden = hiddenTests({ after: (end) => void endings.push(end as () => void) });
  });
  after(() => {
    for (const end of endings) end();
  });

  for (const { name, program, submit, limit = '1m', says = WRONG, fails } of ATTACKS)
    test(`neither runs nor leads anywhere: ${name}`, async (t) => {
      const argv = submit?.(hidden) ?? ['python3', `${hidden}/grade.py`, '{folder}'];
      const command = bash(`( ${program.replaceAll('HIDDEN', hidden)} ) 2>&1; exit 0`);
      const { exit, submission, asked } = await played(t, {
        run: { command, submit: argv, submit_mounts: [hidden] },
        limits: { submit: limit },
      });
      assert.doesNotMatch(exit.tail, new RegExp(SECRET));
      assert.doesNotMatch(submission ?? '', new RegExp(`${SECRET}|true|FORGED`));
      if (submission === null) assert.match(exit.tail, fails ?? NOTHING_THERE);
      else assert.match(submission, says, exit.tail);
      assert.equal(asked, 0);
    });
});
