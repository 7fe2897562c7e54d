import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { keepPort } from './kept-port.js';
import type { PolicyBed, PolicyBedOptions } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import type { Engine } from '../../lab/bed/engine.js';
import { isPaused } from '../../lab/bed/engine.js';
import type { LabelReport } from '../../lab/bed/policy-labels.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { eventually } from '../../lab/bed/waiting.js';

/**
 * What changes while rollouts run, in which phase of it something is lost, and what: a cell is one of each.
 * `POLICY_CELLS=all` plays every cell (`npm run chaos:policy`), `POLICY_CELLS=load,engine` those whose names have one of
 * the words; without it those of `test:long` are played. `POLICY_STORE=postgres` puts journals and record there, `POLICY_ENGINE=sglang` plays them on SGLang's routes.
 */

const LOSSES = ['worker', 'server', 'engine', 'network'] as const;
const TRANSFER = ['begin', 'begun', 'started', 'half', 'finish', 'labels'] as const;

/** `answer`: the engine's answer to the call of the phase. `server`, `temporal`: away for a moment, or two minutes. */
const TABLE = {
  update: {
    phases: ['record', 'pause', 'load', 'label', 'cache', 'resume', 'probe', 'adapter'],
    victims: [...LOSSES, 'answer', 'trainer'],
    short: [
      'load × worker',
      'load × engine',
      'resume × answer',
      'probe × trainer',
      'adapter × engine',
    ],
  },
  asleep: {
    phases: ['sleep', 'wake', 'load'],
    victims: [...LOSSES, 'answer', 'trainer'],
    short: ['sleep × worker', 'wake × trainer'],
  },
  /** `trainer`: another one follows. `silence`: none does, but there are files. */
  transfer: {
    phases: TRANSFER,
    victims: [...LOSSES, 'trainer', 'silence'],
    short: ['half × worker', 'finish × network', 'labels × worker'],
  },
  joiner: {
    phases: ['examined', 'loaded', 'update', 'transfer'],
    victims: LOSSES,
    short: ['transfer × engine'],
  },
  away: { phases: TRANSFER, victims: ['temporal', 'temporal and trainer'], short: [] },
} as const satisfies Record<
  string,
  { phases: readonly string[]; victims: readonly string[]; short: readonly string[] }
>;

type Kind = keyof typeof TABLE;

export interface PolicyCell<K extends Kind = Kind> {
  kind: K;
  phase: (typeof TABLE)[K]['phases'][number];
  victim: (typeof TABLE)[K]['victims'][number];
}

const placeOf = ({ phase, victim }: PolicyCell): string => `${phase} × ${victim}`;
export const nameOf = (cell: PolicyCell): string => `${cell.kind}: ${placeOf(cell)}`;

/** In phase `record` no engine is asked, so no engine's answer can be lost in it. */
const IMPOSSIBLE = new Set(['update: record × answer']);

/** Those that are to be played. */
export function policyCells<K extends Kind>(kind: K): PolicyCell<K>[] {
  const { phases, victims, short } = TABLE[kind];
  const cells = phases.flatMap((phase) => victims.map((victim) => ({ kind, phase, victim })));
  const asked = process.env['POLICY_CELLS'];
  return cells.filter((cell) => {
    if (IMPOSSIBLE.has(nameOf(cell))) return false;
    if (asked === undefined) return short.some((one) => one === placeOf(cell));
    return asked === 'all' || asked.split(',').some((word) => nameOf(cell).includes(word));
  });
}

/** Engines that log their tokens, each behind a network, and a server that may be killed. */
export const startCellBed = (
  kind: Kind,
  { simulator, ...more }: Omit<PolicyBedOptions, 'name'> = {},
): Promise<PolicyBed> =>
  startPolicyBed({
    name: `policy-cells-${kind}`,
    own_server: true,
    has_networks: true,
    store: process.env['POLICY_STORE'] === 'postgres' ? 'postgres' : 'file',
    simulator: { log_tokens: true, ...simulator },
    worker: { heartbeat_timeout: '5s' },
    ...more,
  });

const AWAY_MS = 120_000;
const CUT_MS = 5000;

type Loss = (typeof LOSSES)[number] | 'answer' | 'temporal';

/** Each loses something, gives the engine's held call free, and brings back what was lost. */
export function strikesOn(bed: PolicyBed): Record<Loss, (engine: Engine) => Promise<void>> {
  const release = (engine: Engine): Promise<void> => engine.process().clearFaults();
  const withoutServer =
    (away_ms: number) =>
    async (engine: Engine): Promise<void> => {
      const { address } = bed.server();
      await bed.killServer();
      // Another process would take its port, and the server could not come back.
      const giveBack = await keepPort(address);
      await release(engine);
      await sleep(away_ms);
      await giveBack();
      await bed.startServer();
    };
  return {
    worker: (engine) => bed.worker.kill(() => release(engine)),
    server: withoutServer(0),
    temporal: withoutServer(AWAY_MS),
    engine: async (engine) => {
      await engine.kill();
      await engine.start();
    },
    // What was held is done all the same, for a caller that has heard otherwise.
    network: async (engine) => {
      engine.network().close();
      await release(engine);
      await sleep(CUT_MS);
      engine.network().open();
    },
    answer: () => Promise.resolve(),
  };
}

/** The engine has met its fault. */
export const isHit = (engine: Engine): Promise<unknown> =>
  eventually(`a call to ${engine.replica}`, async () => {
    const reply = await fetch(`${engine.process().url}/simulator/faults`);
    const { faults } = (await reply.json()) as { faults: { hits: number }[] };
    return faults.some(({ hits }) => hits > 0);
  });

/** Every replica serves this version; null: the record's. */
export const allServe = (bed: PolicyBed, version: number | null = null): Promise<unknown> =>
  eventually(`every replica at ${version ?? 'its version'}`, () => serveAll(bed, version));

export async function serveAll(bed: PolicyBed, version: number | null = null): Promise<boolean> {
  const { replicas = {}, version: has = null, sleep = null } = (await bed.record()) ?? {};
  const isMeant = version === null || has === version;
  return (
    isMeant &&
    sleep === null &&
    Object.values(replicas).every((one) => one.state === 'current' && one.version === has)
  );
}

export const settled = (asking: Promise<unknown>): Promise<boolean> =>
  asking.then(
    () => true,
    () => false,
  );

/** A batch of a cell, with streams on both engines. */
export interface CellBatch {
  /** Asserts that it is whole, and that each token has the label of its weights. */
  judge: () => Promise<LabelReport>;
}

export async function startCellBatch(
  bed: PolicyBed,
  { cell, samples = 6, turns = 3 }: { cell: PolicyCell; samples?: number; turns?: number },
): Promise<CellBatch> {
  const id = nameOf(cell).replaceAll(/[^a-z]+/g, '-');
  const rollouts = samples * 2;
  // A failed cell may have left some.
  for (const engine of bed.engines) await engine.process().clearFaults();
  await bed.batch(id).start(puzzleBatch({ samples, repeats: 2, max_rollout_turns: turns }));
  await eventually('streams on both engines', async () => {
    const running = await Promise.all(bed.engines.map((one) => one.process().runningRequests()));
    return running.every((streams) => streams > 0);
  });
  return {
    judge: async () => {
      const { result, rollouts: rows, failures } = await bed.batch(id).outcome();
      assert.deepEqual(result?.counts, {
        ...result?.counts,
        requested: rollouts,
        completed: rollouts,
      });
      assert.equal(rows.length, rollouts);
      assert.deepEqual(failures, []);
      for (const engine of bed.engines) assert.equal(await isPaused(engine), false);
      const report = await bed.check(id);
      assert.deepEqual(report.wrong, []);
      const { unlabelled, turns_generated_twice, half_loaded } = report;
      assert.deepEqual([unlabelled, turns_generated_twice, half_loaded], [0, 0, 0]);
      return report;
    },
  };
}

/** Adds the reports of cells up. */
export function countCells(kind: Kind) {
  const began = performance.now();
  const sum = {
    cells: 0,
    rollouts: 0,
    tokens: 0,
    wrong: 0,
    unlabelled: 0,
    turns_generated_twice: 0,
    sampled_twice: 0,
  };
  return {
    add: (
      cell: PolicyCell,
      { wrong, labels, ...report }: LabelReport & { longest_pause_s?: number },
    ): void => {
      sum.cells += 1;
      sum.wrong += wrong.length;
      for (const name of [
        'rollouts',
        'tokens',
        'unlabelled',
        'turns_generated_twice',
        'sampled_twice',
      ] as const)
        sum[name] += report[name];
      console.log(nameOf(cell), JSON.stringify({ ...report, labels }));
    },
    say: (): void => {
      const seconds = Math.round((performance.now() - began) / 1000);
      console.log(`${kind}, all cells`, JSON.stringify({ seconds, ...sum }));
    },
  };
}
