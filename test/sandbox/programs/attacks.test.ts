import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Confined } from '../../../src/sandbox/programs/confinement.js';
import { attempts } from '../../environments/code/attempts.js';
import { makeCanaries } from '../../environments/code/canaries.js';
import { tryPlain } from '../../environments/code/plain-python.js';
import type { Attack, Targets } from './attacks.js';
import { attacks } from './attacks.js';
import { fileOfLife, openLife, programs, shell, skip, tryInside } from './program-bed.js';

/**
 * Hostile programs, each attack beside the same one with nothing around it, which gets through: what is refused inside
 * is refused by the sandbox.
 */

/** Of what code may not do, what programs need: it reaches no one else. */
const ALLOWED = new Set([
  // Those of their own view of the machine.
  ...[
    'reads /etc/passwd',
    'looks around in /usr',
    'asks for the flags of a file of others by ioctl',
  ],
  // In a network that only they are in.
  ...['sends a datagram', 'listens', 'talks to the kernel over netlink'],
  ...[
    'makes a datagram pair, which can be sent from to any address',
    'makes a socket of any family',
  ],
  ...['sends a descriptor away', 'makes the buffer of a socket larger'],
  // Among their own processes; they are not stopped between turns.
  ...['signals the process that started it', 'leaves its process group and session'],
  ...['sends itself SIGCONT', 'sends its group SIGCONT', 'sends itself SIGCONT by its descriptor'],
  ...['calls timer_create, which could wake it', 'has signals sent by a lease'],
  ...['calls inotify_init1', 'calls seccomp, whose filters are memory of the kernel'],
  'calls prctl for a filter',
  // Answered as file systems without them do.
  'gives a file of its own an attribute',
  // Counted by the watch, or bounded.
  ...['maps memory that would belong to nobody', 'calls shmget'],
]);

describe('hostile programs', { skip }, () => {
  const closing: (() => void | Promise<void>)[] = [];
  let at: Targets;
  let life: Confined;

  before(async () => {
    const { canaries, close } = await makeCanaries();
    // Programs have a /tmp of their own.
    const folder = mkdtempSync('/var/tmp/program-canaries-');
    closing.push(close, () => {
      rmSync(folder, { recursive: true });
    });
    const journal = path.join(folder, 'journal.jsonl');
    writeFileSync(journal, canaries.secret);
    const confinement = programs(
      { after: (end) => void closing.unshift(end) },
      { mounts: [folder] },
    );
    const other = await openLife(confinement);
    await shell(other, `printf ${canaries.secret} > ${canaries.secret}`);
    life = await openLife(confinement);
    at = {
      ...{ ...canaries, journal: `${folder}-store`, mount: folder },
      file_of_other_life: fileOfLife(canaries.secret),
    };
    writeFileSync(at.journal, canaries.secret);
    closing.push(() => {
      rmSync(at.journal);
    });
  });
  after(async () => {
    for (const close of closing) await close();
  });

  test('none of these attacks gets through, each of which does with nothing around it', async (t) => {
    const isRoot = process.getuid?.() === 0;
    const all = attacks(at).filter(({ needs_root }) => isRoot || needs_root !== true);
    const codes = all.map(({ code }) => code);
    const [inside, plain] = [await tryInside(life, codes), await tryPlain(codes)];
    for (const [n, { name, through, absent }] of all.entries()) {
      const [held, free] = [inside[n] ?? '', plain[n] ?? ''];
      assert.ok(!matches(held, through), `${name} got through: ${held}`);
      assert.ok(!held.includes(at.secret), `${name} saw the secret: ${held}`);
      if (matches(free, through)) continue;
      assert.ok(absent?.test(free), `${name} with nothing around it: ${free}`);
      t.diagnostic(`this host refuses it to everybody: ${name}: ${free}`);
    }
  });

  test('of what code tries, programs may do what is theirs alone, and nothing else', async () => {
    const all = attempts(at);
    const said = await tryInside(
      life,
      all.map(({ code }) => code),
    );
    const through = all.filter((one, n) => matches(said[n] ?? '', one.through));
    assert.deepEqual(
      through.map(({ name }) => name).filter((name) => !ALLOWED.has(name)),
      [],
    );
    for (const one of said) assert.ok(!one.includes(at.secret), one);
    assert.equal(await shell(life, 'echo still'), 'still');
  });
});

const matches = (text: string, pattern: Attack['through']): boolean =>
  typeof pattern === 'string' ? text === pattern : pattern.test(text);
