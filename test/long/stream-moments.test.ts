/** Kills the worker of a stream with SIGKILL at moments that files show: before and after each fact is put. */
import assert from 'node:assert/strict';
import { watch } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { faultOf } from '../../lab/bed/stream.js';
import { within } from '../../lab/bed/waiting.js';

interface Moment {
  name: string;
  /** Below the stream's own folder; K is the step that is asked for. */
  folder: string;
  file: RegExp;
}

const MOMENTS: readonly Moment[] = [
  { name: 'before a group is admitted', folder: 'admitted', file: /^\d+\.json\..*tmp$/ },
  { name: 'after a group is admitted', folder: 'admitted', file: /^\d+\.json$/ },
  { name: "before a group's end is put", folder: 'ended', file: /^\d+\.json\..*tmp$/ },
  { name: "after a group's end is put", folder: 'ended', file: /^\d+\.json$/ },
  { name: 'before a step is put', folder: 'steps/K', file: /^step\.json\..*tmp$/ },
  { name: 'after a step is put', folder: 'steps/K', file: /^step\.json$/ },
  { name: 'while its rows are written', folder: 'steps/K', file: /^rollouts\.jsonl\../ },
  { name: 'after its rows are there', folder: 'steps/K', file: /^rollouts\.jsonl$/ },
  { name: 'before its metrics are there', folder: 'steps/K', file: /^metrics\.json\..*tmp$/ },
  { name: 'after its metrics are there', folder: 'steps/K', file: /^metrics\.json$/ },
];

const GROUPS_PER_STEP = 2;

describe('a stream', () => {
  let bed: PolicyBed;
  before(async () => {
    bed = await startPolicyBed({ name: 'stream-moments', replicas: 1 });
  });
  after(() => bed.end());

  const request = (size: { samples: number; num_repeats: number }): Record<string, unknown> =>
    puzzleRequest(size, { max_rollout_turns: 1 });

  test('delivers each group once, wherever its worker is killed', async () => {
    const stream = bed.stream('moments');
    const folder = path.dirname(bed.journals('moments'));
    await stream.start({
      ...request({ samples: 4, num_repeats: 2 }),
      groups_per_step: GROUPS_PER_STEP,
    });
    const hashes: string[] = [await hashOf(0)];
    async function hashOf(step: number): Promise<string> {
      await stream.step(step, step);
      return await stream.hash(step);
    }
    for (const moment of MOMENTS) {
      const step = hashes.length;
      const place = path.join(folder, moment.folder.replace('K', String(step)));
      await mkdir(place, { recursive: true });
      // A folder without a fact goes, and a watch with it.
      await writeFile(path.join(place, 'watched'), '');
      const killed = strikeAt(place, { file: moment.file, strike: () => bed.worker.kill() });
      const asked = hashOf(step);
      await within(moment.name, killed);
      hashes.push(await asked);
      for (const [known, hash] of hashes.entries())
        assert.equal(await stream.hash(known), hash, `step ${known}, killed ${moment.name}`);
    }
    const facts = await Promise.all(hashes.map((_, step) => stream.fact(step)));
    const groups = facts.flatMap((fact) => fact.groups);
    assert.equal(new Set(groups).size, GROUPS_PER_STEP * hashes.length);
    for (const { step } of facts) {
      const rows = await stream.rows(step);
      const ids = rows.map(({ rollout_id }) => rollout_id);
      assert.equal(new Set(ids).size, 2 * GROUPS_PER_STEP, `step ${step}`);
    }
    const { turns_generated_twice, rollouts } = await bed.check('moments');
    assert.equal(turns_generated_twice, 0);
    const { admitted, in_flight, banked } = await stream.progress();
    assert.equal(admitted, groups.length + in_flight + banked);
    assert.ok(rollouts <= 2 * admitted, `${rollouts} rollouts of ${admitted} groups`);
    await stream.handle().signal('stop');
    await stream.handle().result();
    // A kill in the midst of a write may leave its temporary file.
    const isFact = (name: string): boolean => name.endsWith('.json');
    for (const kind of ['admitted', 'ended'])
      for (const name of (await readdir(path.join(folder, kind)).catch(() => [])).filter(isFact))
        assert.ok(!groups.includes(parseInt(name, 10)), `${kind}/${name} is left`);
  });

  test('is killed as it continues as new, and no ask or group is lost', async () => {
    const stream = bed.stream('new-run');
    await stream.start({ ...request({ samples: 20, num_repeats: 1 }), groups_per_step: 20 });
    const first = (await stream.handle().describe()).runId;
    let kills = 0;
    const killOnce = async (): Promise<void> => {
      if (kills === 0) await bed.worker.kill();
      kills += 1;
    };
    const groups: number[] = [];
    const hashes: string[] = [];
    for (let step = 0; ; step++) {
      for (;;) {
        // Refused while the workflow that has the update is being closed: asked again, as clients do.
        const answer = await stream.ask({ step, version: step, wait: '20s' }).catch(() => null);
        if (answer?.ready === true) break;
        if (answer?.why.includes('new run') === true) await killOnce();
      }
      groups.push(...(await stream.fact(step)).groups);
      hashes.push(await stream.hash(step));
      if ((await stream.handle().describe()).runId !== first) {
        await killOnce();
        break;
      }
      assert.ok(step < 60, 'the stream does not go on in a new run');
    }
    assert.ok(kills > 0);
    await stream.step(hashes.length, hashes.length);
    groups.push(...(await stream.fact(hashes.length)).groups);
    assert.equal(new Set(groups).size, groups.length);
    for (const [step, hash] of hashes.entries()) assert.equal(await stream.hash(step), hash);
    const early = await faultOf(stream.ask({ step: hashes.length + 3, wait: '1s' }));
    assert.equal(early.type, 'StepOutOfOrder');
    await stream.handle().signal('stop');
    await stream.handle().result();
  });
});

/** Resolves when the victim is there again. */
async function strikeAt(
  folder: string,
  { file, strike }: { file: RegExp; strike: () => Promise<void> },
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const watcher = watch(folder, (_, name) => {
      if (name === null || !file.test(name)) return;
      watcher.close();
      strike().then(resolve, reject);
    });
    watcher.on('error', reject);
  });
}
