import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import type { PolicyClient } from '../../src/client/policy-client.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { Simulator } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import type { LogLine } from '../../simulator/request-log.js';
import { PolicyRecord } from '../../src/model/policy/record.js';
import { textsInFolder } from '../../lab/bed/journal-texts.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed, TASK_QUEUE } from '../../lab/bed/policy-bed.js';
import { checkLabels } from '../../lab/bed/policy-labels.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { requestLogOf } from '../../lab/bed/simulator.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

const JOIN = 50;
const LEAVE = 20;
const ROLLOUTS = 512;
/** No puzzle is solved, so the batch goes on for two minutes after the last change of the fleet. */
const TURNS = 24;
/** Behind the last change. */
const MEASURED_MS = 60_000;
/**
 * Of the mean. A rollout stays at the first of its order that does not run more than 1.25 times the mean and one. With
 * ten rollouts an engine that is 1.35 times the mean at most, and one has half of it by chance.
 */
const MOST = 1.6;
/** Half of the engines, those that joined late, get as much as the others, but for chance. */
const BETWEEN_HALVES = 0.35;
/** Between two changes of the fleet; with those before it, where the machine keeps up, less than a minute in all. */
const STEP_MS = 3500;
/** A worker reads the record before it sends; what it has read may be this old when the request arrives. */
const ON_ITS_WAY_MS = 30_000;
/** Slow turns: many streams are open at once, and few tokens come. */
const ENGINE = {
  dev_mode: true,
  scale_out: true,
  tokens_per_second: 10,
  thinking_tokens: 40,
} as const;

const sumOf = (counts: readonly number[]): number => counts.reduce((sum, one) => sum + one, 0);

interface Member {
  url: string;
  directory: string;
  simulator: Simulator;
}

describe(`${JOIN} engines that join and ${LEAVE} that leave during a batch`, () => {
  let bed: PolicyBed;
  let client: PolicyClient;
  let folder: { path: string; remove: () => Promise<void> };
  const members: Member[] = [];
  before(async () => {
    folder = await makeTemporaryDirectory('many-engines');
    bed = await startPolicyBed({
      name: 'many-engines',
      replicas: 1,
      skill: 0,
      simulator: ENGINE,
      generation: { wire: 'generate', allow: [{ cidr: '127.0.0.0/8', ports: '1-65535' }] },
    });
    client = await connectPolicy(onLoopback(bed.server()), {
      service: 'default',
      task_queue: TASK_QUEUE,
    });
    for (let i = 0; i < JOIN; i++) {
      const directory = path.join(folder.path, String(i));
      await mkdir(directory);
      const settings = { ...ENGINE, thinking_tokens: 40, log_file: requestLogOf(directory) };
      const simulator = await startSimulator({ settings, port: 0 });
      members.push({ url: `${simulator.url}/v1`, directory, simulator });
    }
  });
  after(async () => {
    await client.close();
    await bed.end();
    await Promise.all(members.map(({ simulator }) => simulator.close()));
    await folder.remove();
  });

  /** When each engine served, by the times of the record's changes. */
  const served = async (): Promise<Map<string, { first: number; last: number }>> => {
    const records = path.join(bed.journals('many'), '..', '..', '_policy', 'default');
    const epochs = (await readdir(records))
      .flatMap((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? [])
      .map(Number);
    const times = new Map<string, { first: number; last: number }>();
    const open = new Set<string>();
    for (const epoch of epochs.sort((a, b) => a - b)) {
      const file = path.join(records, `${epoch}.json`);
      const record = PolicyRecord.parse(JSON.parse(await readFile(file, 'utf8')));
      const { mtimeMs } = await stat(file);
      for (const url of open)
        if (record.replicas[url] === undefined) times.get(url)!.last = mtimeMs;
      for (const [url, { state }] of Object.entries(record.replicas)) {
        if (state !== 'current') continue;
        if (!open.has(url)) times.set(url, { first: mtimeMs, last: Infinity });
        open.add(url);
      }
    }
    return times;
  };
  const arrivals = async ({ directory }: Member): Promise<number[]> => {
    const text = await readFile(requestLogOf(directory), 'utf8').catch(() => '');
    const lines = text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as LogLine);
    return lines.flatMap((line) => (line.event === 'arrived' ? [Date.parse(line.at)] : []));
  };

  test('cost no rollout and no label, and none is asked before it was examined', async () => {
    await bed.publish(await bed.weights(1));
    await bed.batch('many').start(
      puzzleBatch({
        samples: 16,
        repeats: ROLLOUTS / 16,
        max_rollout_turns: TURNS,
        max_in_flight: 300,
      }),
    );
    await sleep(5000);
    const began = Date.now();
    let version = 1;
    // Five join in each step, and in each of the last five four leave.
    for (let step = 0; step < 10; step++) {
      const urls = members.slice(0, 5 * (step + 1)).map(({ url }) => url);
      const gone = step < 5 ? 0 : 4 * (step - 4);
      await client.update('engines', { owner: 'job', urls: urls.slice(gone) });
      if (step === 3 || step === 7) await bed.publish(await bed.weights((version += 1)));
      await sleep(Math.max(0, began + STEP_MS * (step + 1) - Date.now()));
    }
    const changed_s = (Date.now() - began) / 1000;
    const { result } = await bed.batch('many').outcome(600_000);
    const ended = Date.now();
    assert.deepEqual(result?.counts, {
      ...result?.counts,
      requested: ROLLOUTS,
      completed: ROLLOUTS,
    });
    const journals = await textsInFolder(bed.journals('many'));
    const report = await checkLabels({ journals, engines: [...bed.engines, ...members] });
    assert.deepEqual(report.wrong, []);
    assert.equal(report.unlabelled, 0);
    assert.equal(report.turns_generated_twice, 0);
    const times = await served();
    const shares: number[] = [];
    const since = began + changed_s * 1000;
    for (const [i, member] of members.entries()) {
      const at = await arrivals(member);
      const time = times.get(member.url);
      for (const one of at) {
        assert.ok(
          time !== undefined && one >= time.first,
          `${member.url} was asked before it served`,
        );
        assert.ok(one <= time.last + ON_ITS_WAY_MS, `${member.url} was asked after it had left`);
      }
      const begun = at.filter((one) => one >= since && one < since + MEASURED_MS).length;
      if (i >= LEAVE) shares.push(begun);
    }
    const mean = sumOf(shares) / shares.length;
    const [early, late] = [shares.slice(0, shares.length / 2), shares.slice(shares.length / 2)];
    const joiners = sumOf(late) / sumOf(early);
    console.log({
      changed_s,
      rest_s: (ended - since) / 1000,
      turns_each: mean,
      least: Math.min(...shares) / mean,
      most: Math.max(...shares) / mean,
      joiners,
      ...report,
    });
    assert.ok(ended > since + MEASURED_MS, 'the batch was too short to measure shares');
    assert.ok(
      shares.every((one) => one > 0 && one <= MOST * mean),
      `turns that began at each: ${shares.join(', ')}`,
    );
    assert.ok(Math.abs(joiners - 1) <= BETWEEN_HALVES, `late and early joiners: ${joiners}`);
  });
});
