import path from 'node:path';
import type { BatchProgress, BatchResult } from '../../../src/activities/contract.js';
import type { BatchHandle } from '../../../src/client/batch-client.js';
import { connectBatchClient } from '../../../src/client/batch-client.js';
import { onLoopback } from '../../../src/client/server.js';
import { waitingText } from '../../../src/model/workflow-safe/waiting.js';
import type { PolicyBed } from '../../bed/policy-bed.js';
import { puzzleRequest } from '../../bed/puzzle-request.js';
import type { RecoveryBatch } from '../../bed/bed.js';
import { within } from '../../bed/waiting.js';
import { judgeBatch } from '../judge-batch.js';
import type { Played } from '../played.js';
import { commonOf } from './bed.js';
import type { Moment } from './day.js';
import type { Operated } from './operate.js';
import { operate } from './operate.js';
import type { Looked, Subject } from './subject.js';

const ID = 'day-batch';
const SIZE = { samples: 24, num_repeats: 4 };
/** Few enough to last longer than the operations. */
const AT_ONCE = 4;
const AT_ONCE_LATER = 32;
/** A batch whose rollouts somebody ended is continued by its id, as the docs say. */
const MOST_STARTS = 3;

export interface PlayedDay {
  played: Played;
  operated: Operated;
}

/** A batch that an operator disturbs, and that is started again until it is whole. */
export async function playBatch(
  bed: PolicyBed,
  how: { day: readonly Moment[]; say: (line: string) => void },
): Promise<PlayedDay> {
  const client = await connectBatchClient(onLoopback(bed.server()));
  const batch = bed.batch(ID);
  try {
    const subject: Subject = {
      name: 'batch',
      ...commonOf({
        ...{ bed, id: ID, children: 'rollout' },
        updates: ['set_limits', 'set_max_in_flight', 'groups'],
      }),
      start: (delay) => batch.start(request(), delay),
      look: () => look(client.attach(ID)),
    };
    await subject.start();
    const operated = await operate(subject, how);
    await client.setMaxInFlight(ID, AT_ONCE_LATER);
    await untilWhole(batch.handle, subject.start);
    return { operated, played: await judge(bed) };
  } finally {
    await client.close();
  }
}

function request() {
  const generation = { seed: 3, max_new_tokens: 256 };
  return puzzleRequest(SIZE, { generation, max_in_flight: AT_ONCE, max_rollout_turns: 10 });
}

async function look(batch: BatchHandle): Promise<Looked> {
  const { closed, begun_ms = Date.now(), progress, trouble } = await batch.look();
  const waiting = progress?.waiting ?? null;
  return {
    isOpen: !closed,
    plays: !closed && progress?.phase === 'running',
    age_s: (Date.now() - begun_ms) / 1000,
    waits: trouble ?? (waiting === null ? planOf(progress) : waitingText(waiting)),
  };
}

/** As the board says it. */
const planOf = (progress: BatchProgress | null): string | null =>
  progress?.phase === 'planning' ? 'its plan' : null;

async function untilWhole(
  handle: RecoveryBatch['handle'],
  start: () => Promise<void>,
): Promise<void> {
  const requested = SIZE.samples * SIZE.num_repeats;
  for (let starts = 1; ; starts++) {
    const { counts } = (await within(`the end of ${ID}`, handle().result())) as BatchResult;
    if (counts.completed === requested || starts === MOST_STARTS) return;
    await start();
  }
}

const judge = async (bed: PolicyBed): Promise<Played> =>
  await judgeBatch(path.dirname(bed.journals(ID)), {
    rows_expected: SIZE.samples * SIZE.num_repeats,
    labels: await bed.check(ID),
  });
