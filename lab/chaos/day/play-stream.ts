import type { StreamProgress } from '../../../src/activities/contract/stream.js';
import type { StreamClient } from '../../../src/client/stream-client.js';
import { connectStream } from '../../../src/client/stream-client.js';
import { onLoopback } from '../../../src/client/server.js';
import { createRandom } from '../../../simulator/random.js';
import { waitingText } from '../../../src/model/workflow-safe/waiting.js';
import { describeError } from '../../../src/platform/errors.js';
import type { PolicyBed } from '../../bed/policy-bed.js';
import { puzzleRequest } from '../../bed/puzzle-request.js';
import type { StreamToTest } from '../../bed/stream.js';
import { eventually } from '../../bed/waiting.js';
import type { DeliveredStep } from '../judge-stream.js';
import { judgeStream } from '../judge-stream.js';
import { ageOf, commonOf } from './bed.js';
import type { Moment } from './day.js';
import { operate } from './operate.js';
import type { PlayedDay } from './play-batch.js';
import type { Looked, Subject } from './subject.js';

const ID = 'day-stream';
const SIZE = { groups_per_step: 2, num_repeats: 2 };
const MAX_LAG = 1;
/** Weights that come several at once make tokens too old: they are masked. */
const JUMP = 3;
const JUMPS = 0.25;
const STEPS_AFTER = 2;

/** A stream that an operator disturbs while a trainer publishes weights and asks for steps. */
export async function playStream(
  bed: PolicyBed,
  how: { day: readonly Moment[]; say: (line: string) => void; seed: number },
): Promise<PlayedDay> {
  const stream = bed.stream(ID);
  const common = commonOf({
    ...{ bed, id: ID, children: 'rolloutGroup' },
    updates: ['next_step', 'forget', 'set_limits', 'set_max_in_flight'],
  });
  await stream.start(request());
  const client = await connectStream(onLoopback(bed.server()), ID);
  try {
    const trainer = train(stream, { bed, seed: how.seed });
    const subject: Subject = {
      name: 'stream',
      ...common,
      start: (delay) => stream.start(request(), delay),
      look: () => look(client, stream),
    };
    const operated = await operate(subject, how);
    const steps = await trainer.end(STEPS_AFTER);
    const lost = lostIn(await stream.progress());
    await stream.handle().signal('stop');
    await stream.handle().result();
    // Until then journals and the engine's log may differ.
    await eventually('the end of its groups', async () => (await subject.children()).length === 0);
    const { lag, problems, ...judged } = await judgeStream(stream, { steps, ...SIZE });
    problems.push(...lost);
    if (lag.over === 0)
      problems.push('no token was too old: nothing has shown that masks are right');
    if (lag.unknown > 0) problems.push(`${lag.unknown} tokens have no known age`);
    const labels = await bed.check(ID);
    return { operated, played: { name: 'stream', ...judged, problems, labels } };
  } finally {
    await client.close();
  }
}

function request() {
  const generation = { seed: 3, max_new_tokens: 256 };
  const size = { samples: 8, num_repeats: SIZE.num_repeats };
  return {
    ...puzzleRequest(size, { generation, max_rollout_turns: 3 }),
    ...{ groups_per_step: SIZE.groups_per_step, max_lag: MAX_LAG, when_stale: 'mask' as const },
  };
}

/** Every group is somewhere, once; what an operator ends is played again. */
function lostIn({ admitted, in_flight, banked, out }: StreamProgress): string[] {
  const { delivered, filtered, failed, dropped } = out;
  const known = in_flight + banked + delivered + filtered + failed + dropped;
  return [
    ...(known === admitted ? [] : [`${admitted} groups were admitted, ${known} are somewhere`]),
    ...(failed + dropped + filtered === 0 ? [] : [`groups were lost: ${JSON.stringify(out)}`]),
  ];
}

interface Trainer {
  /** Every step so far and so many more. Throws what it could not do. */
  end: (more: number) => Promise<DeliveredStep[]>;
}

/** Publishes weights, asks for a step, and again. */
function train(stream: StreamToTest, { bed, seed }: { bed: PolicyBed; seed: number }): Trainer {
  const random = createRandom(seed);
  const steps: DeliveredStep[] = [];
  let last = Infinity;
  const training = (async () => {
    for (let version = 1; steps.length < last;) {
      const result = await stream.step(steps.length, version);
      steps.push({ result, hash: await stream.hash(result.step) });
      version += random() < JUMPS ? JUMP : 1;
      await bed.publish(await bed.weights(version));
    }
  })();
  // It is thrown by `end`.
  training.catch(() => undefined);
  return {
    end: async (more) => {
      last = steps.length + more;
      await training;
      return steps;
    },
  };
}

/** The plan, or a trainer that publishes; what it waits for beside them has to be in `waiting`. */
const ownWait = ({ phase, why }: StreamProgress): string | null =>
  phase === 'planning' || why.includes('has not been asked for') ? why : null;

/** As `stream status` shows it. */
async function look(client: StreamClient, stream: StreamToTest): Promise<Looked> {
  const age_s = await ageOf(stream.handle()).catch(() => 0);
  try {
    const { progress, ended } = await client.look();
    const { phase, waiting } = progress;
    const waits = waiting === null ? ownWait(progress) : waitingText(waiting);
    const isOpen = ended === null && phase !== 'done';
    return { isOpen, plays: isOpen && phase === 'running', age_s, waits };
  } catch (error) {
    return { isOpen: true, plays: false, age_s, waits: describeError(error) };
  }
}
