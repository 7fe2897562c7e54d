import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { PolicyAnswers } from '../../src/client/policy-client.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import type { PolicyCell } from './policy-cells.js';
import { isHit, serveAll, settled } from './policy-cells.js';
import type { Engine } from '../../lab/bed/engine.js';
import type { SendingTrainer } from './sending-trainer.js';
import { groupsOf } from './sending-trainer.js';
import { eventually, PATIENCE_MS } from '../../lab/bed/waiting.js';

type Phase = PolicyCell<'transfer'>['phase'];

/** The call to an engine in whose middle a phase is. The others are between two steps of the trainer. */
const HELD: Partial<Record<Phase, string>> = {
  begin: '/pause',
  finish: '/update_weight_version',
  labels: '/resume',
};

/** The trainer's process ends here. */
class Killed extends Error {}
export const killed = (): never => {
  throw new Killed();
};
export const unlessKilled = (error: unknown): null => {
  if (error instanceof Killed) return null;
  throw error;
};

const BETWEEN_TRIES_MS = 1000;

/** A trainer that gets no answer asks again; a refusal is an answer. */
async function answered<T>(ask: () => Promise<T>): Promise<T> {
  for (const end = performance.now() + PATIENCE_MS; ;) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof WorkflowUpdateFailedError || performance.now() > end) throw error;
    }
    await sleep(BETWEEN_TRIES_MS);
  }
}

/**
 * A whole transfer, in which `strike` loses something in a phase, as it concerns this engine. The trainer leaves out an
 * engine that fails, and finishes with the others.
 */
export async function walkTransfer(
  trainer: SendingTrainer,
  {
    phase,
    engine,
    given = {},
    strike,
  }: { phase: Phase; engine: Engine; given?: object; strike: () => Promise<unknown> },
): Promise<PolicyAnswers['finish']> {
  const after = async (now: Phase): Promise<void> => {
    if (now === phase) await strike();
  };
  const during = async <T>(phases: Phase[], ask: () => Promise<T>): Promise<T> => {
    const path = phases.includes(phase) ? HELD[phase] : undefined;
    if (path === undefined) return await answered(ask);
    await engine.process().inject({ fault: 'hold', path });
    const answering = answered(ask);
    answering.catch(() => undefined);
    await isHit(engine);
    await strike();
    return await answering;
  };
  const held = await during(['begin'], () => trainer.begin(given));
  await after('begun');
  const sent = new Set(groupsOf(held));
  const toEach = async (step: (only: number[]) => Promise<void>): Promise<void> => {
    for (const group of [...sent]) if (!(await settled(step([group])))) sent.delete(group);
  };
  await toEach((only) => trainer.start(held, only));
  await after('started');
  await toEach((only) => trainer.send(held, { last: 0, only, is_started: true }));
  await after('half');
  await toEach((only) => trainer.send(held, { first: 1, only }));
  await toEach((only) => trainer.endSession(held, only));
  return await during(['finish', 'labels'], () => trainer.finish(held, [...sent]));
}

/** The trainer gives its weights to engines that lack them, or sends the next ones to all. */
export async function repairBy(trainer: SendingTrainer, bed: PolicyBed): Promise<void> {
  const repair = async (): Promise<void> => {
    const record = await bed.record();
    const { version = null, target = null, replicas = {} } = record ?? {};
    const lacking = Object.entries(replicas).filter(
      ([, one]) => one.state !== 'current' || one.version !== version,
    );
    const isOwn = version === target && record?.transfers.past.at(-1)?.version === version;
    const only = lacking.map(([url]) => url);
    await trainer.transfer(isOwn ? { version, only, same: true } : {});
  };
  await eventually('every engine repaired', async () => {
    if (await serveAll(bed)) return true;
    if (!(await settled(repair()))) await sleep(BETWEEN_TRIES_MS);
    return false;
  });
}
