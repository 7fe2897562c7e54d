import { setImmediate as immediately } from 'node:timers/promises';
import type {
  Delta,
  GenerationEnd,
  GenerationService,
  PolicyReading,
} from '../../src/generation/generation-service.js';
import { Fault } from '../../src/model/faults.js';
import type { Finish } from '../../src/model/journal.js';
import type { PolicyRecord } from '../../src/model/policy/record.js';
import { firstRecord, withReplica } from '../../src/model/policy/record.js';
import type { Pool } from '../../src/sampling/call.js';
import { deltaOf, scriptedService } from './scripted-service.js';

/** What one request meets, after so many of its deltas. */
export type Fate =
  | 'whole'
  | 'cut'
  | 'breaks'
  | 'breaks at its end'
  | 'claims a stop string'
  | 'update'
  | 'update, then cut'
  | 'other weights';

const END: Finish = { finish_reason: 'stop', stop_reason: null };

/**
 * An engine whose every request samples other letters, with a stop string now and then, and meets its fate. Its weights
 * are published, or their label is all that tells them apart.
 */
export function erraticEngine({
  fates,
  random,
  is_published,
  tells_text,
  names_spans,
}: {
  fates: Iterator<Fate>;
  /** In [0, 1). */
  random: () => number;
  is_published: boolean;
  tells_text: boolean;
  names_spans: boolean;
}) {
  let label = '1';
  const service: GenerationService = {
    ...scriptedService([], { weightVersion: () => label }),
    tells_text: () => tells_text,
    names_spans: ({ stop_strings }) => names_spans && (tells_text || stop_strings.length === 0),
  };
  const { replica } = service;
  const records: PolicyRecord[] = [];
  const change = (state: 'current' | 'updating'): void => {
    const before = records.at(-1) ?? firstRecord([replica]);
    const version = Number(label);
    const paused_until = state === 'updating' ? Number.MAX_SAFE_INTEGER : null;
    const after = withReplica(before, { replica, state, version, paused_until });
    records.push({ ...after, epoch: records.length });
  };
  if (is_published) change('current');
  const policy: PolicyReading = {
    latest: () => Promise.resolve(records.at(-1) ?? null),
    at: (epoch) => Promise.resolve(records[epoch] ?? null),
  };
  const newWeights = (): void => {
    if (is_published) change('updating');
    label = String(Number(label) + 1);
    if (is_published) change('current');
  };
  const letters = (count: number): string =>
    Array.from({ length: count }, () => 'abcdefghij;'[Math.floor(random() * 10.02)]).join('');
  const broken = (type: 'ProtocolError' | 'GenerationUnavailable', message: string): Fault =>
    new Fault({ type, message, at: replica });

  service.generate = async ({ max_tokens, stop_strings }, { signal, onDelta }) => {
    const fate = (fates.next().value as Fate | undefined) ?? 'whole';
    const spans = [{ version: label, start: 0, end: 0 }];
    let sent = 0;
    const send = async (text: string, finish?: Finish): Promise<void> => {
      await immediately();
      signal.throwIfAborted();
      const delta: Delta = { ...deltaOf(text), ...(finish && { finish }) };
      sent += delta.token_ids.length;
      spans.at(-1)!.end = sent;
      // The end of sequence is not shown.
      onDelta({ ...delta, text: tells_text ? text.replace('¶', '') : '' });
      // The recorder asks about the label before it writes.
      for (let i = 0; i < 3; i++) await immediately();
    };
    // 64 at once are written at once.
    const deltas = 1 + Math.floor(random() * 3);
    for (let i = 0; i < deltas && sent + 64 < max_tokens; i++) await send(letters(64 - (i % 2)));
    if (fate.startsWith('update') || fate === 'other weights') {
      if (fate === 'other weights') label = String(Number(label) + 1000);
      else newWeights();
      spans.push({ version: label, start: sent, end: sent });
      if (sent + 64 < max_tokens) await send(letters(64));
    }
    if (fate === 'breaks') throw broken('ProtocolError', 'NaN');
    if (fate.endsWith('cut')) throw broken('GenerationUnavailable', 'the stream was cut');
    const stop = fate === 'claims a stop string' ? stop_strings[0] : undefined;
    const finish = stop === undefined ? END : { finish_reason: 'stop' as const, stop_reason: stop };
    if (sent < max_tokens) await send('¶', finish);
    if (fate === 'breaks at its end') throw broken('ProtocolError', 'wrong usage');
    const end: GenerationEnd = { ...finish, queue_s: 0, generate_s: 0 };
    return names_spans ? { ...end, spans } : end;
  };

  const pool: Pool = {
    special_tokens: [],
    request: (_, run) => {
      const entry = records.at(-1)?.replicas[replica];
      const fence = entry && {
        version: entry.version,
        adapter: null,
        epoch: entry.epoch,
        record_epoch: records.length - 1,
      };
      return run(service, {
        fence: fence ?? null,
        policy,
        waited_s: 0,
        pauseOver: () => Promise.resolve(),
        logprobsMode: () => Promise.resolve('processed'),
      });
    },
    // Whoever has published them gives them back.
    distrust: () => {
      newWeights();
      return Promise.resolve();
    },
  };
  return { service, pool, publish: newWeights };
}
