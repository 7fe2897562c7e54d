import type { EnvironmentMessage } from '../../environments/environment.js';
import { textLog } from '../../model/content.js';
import { Fault } from '../../model/faults.js';
import { withField, type ForeignObject } from '../../model/foreign-object.js';
import { answered } from '../../model/journal/calls.js';
import { hasFinished, type Life } from '../../model/journal/lives.js';
import { glanceOf } from '../../model/journal/outcome.js';
import { rewardWith } from '../../model/journal/reward-sum.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { totalsOf } from '../../model/journal/trajectory.js';
import { sequencesOf } from '../../model/results/sequences.js';
import { isSampled } from '../../model/results/train-mask.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { withShare } from '../../platform/waits/allowance.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { journalLost } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { sampleOf } from '../request-of.js';
import type { Answer } from '../turn/answer.js';
import type { AskedStep } from '../turn/ask-environment.js';
import { askEnvironment } from '../turn/ask-environment.js';

/**
 * What a program's rollout is worth: what another environment says of its main sequence, or what its service has said.
 * The program does not run again, however often this is asked.
 */
export async function verifyProgram(playing: Playing, dependencies: Dependencies): Promise<void> {
  const { trajectory } = playing.journal;
  const life = trajectory.lives.at(-1);
  if (trajectory.start === null || life === undefined || !hasFinished(life))
    throw journalLost(playing.ref, { lacks: "its program's end", store: dependencies.store });
  try {
    await verdict(playing, { life, dependencies });
  } catch (error) {
    throw await recordFault(withoutSession(error), { ...playing, turn: trajectory.calls.length });
  }
}

async function verdict(
  playing: Playing,
  { life, dependencies }: { life: Life; dependencies: Dependencies },
): Promise<void> {
  const { trajectory } = playing.journal;
  const { verify = null } = trajectory.start?.program ?? {};
  const began = performance.now();
  if (verify === null) {
    await conclude(playing, { answer: ownAnswer(life, { playing }), step_s: 0 });
    return;
  }
  await withShare(dependencies.answers, async (share) => {
    const asked = await askedOf(playing, { verify, life, store: dependencies.store });
    const { answer, waited_ms } = await askEnvironment(playing, { ...dependencies, share, asked });
    await conclude(playing, { answer, step_s: (performance.now() - began - waited_ms) / 1000 });
  });
}

async function conclude(
  { journal }: Playing,
  { answer, step_s }: { answer: Answer; step_s: number },
): Promise<void> {
  const { trajectory } = journal;
  const semantics = trajectory.start?.settings.semantics ?? 'standard';
  await journal.append({
    kind: 'observation',
    turn: Math.max(0, trajectory.calls.length - 1),
    ...answer,
    token_ids: [],
    total_tokens: totalsOf(trajectory).total_tokens,
    glance: {
      ...glanceOf(trajectory),
      total_reward: rewardWith(trajectory, { line: answer, semantics }),
    },
    step_s,
  });
}

/** The main sequence, as text. */
async function askedOf(
  { ref, journal: { trajectory } }: Playing,
  { verify, life, store }: { verify: string; life: Life } & Pick<Dependencies, 'store'>,
): Promise<AskedStep> {
  const main = sequencesOf(trajectory)?.sequences[0]?.message_log ?? [];
  const { sample } = await sampleOf(ref, store);
  const submission = life.exit?.submission ?? '';
  // Graders read the last message as the policy's. One that asked nothing may have answered all the same.
  const log: EnvironmentMessage[] =
    main.length > 0
      ? textLog(main)
      : [...textLog(sample.message_log), { role: 'assistant', content: submission }];
  const said = main.findIndex((message) => message.role === 'assistant' && isSampled(message));
  return {
    task: verify,
    turn: { message_log: log, metadata: metadataOf(trajectory, life) },
    prompt_length: said === -1 ? log.length - 1 : said,
  };
}

function metadataOf({ extra_env_info, calls }: Trajectory, { exit }: Life): ForeignObject {
  const { code = null, signal = null, tail = '', submission = null, said } = exit ?? {};
  const about = {
    exit: { code, signal, tail },
    submission,
    calls: answered(calls),
    ...(said !== undefined && said.metadata !== null && { said: said.metadata }),
  };
  return Object.entries(about).reduce<ForeignObject>(
    (metadata, [name, value]) => withField(metadata, { name, value }),
    extra_env_info,
  );
}

/** A program that a limit ended could not say what it is worth: nothing. */
function ownAnswer({ exit, refusal }: Life, { playing }: { playing: Playing }): Answer {
  const { reward = null, rewards = {}, metadata = null } = exit?.said ?? {};
  const named = Object.values(rewards);
  const sum = named.length === 0 ? null : named.reduce((total, one) => total + one, 0);
  const worth = reward ?? sum ?? (refusal === null ? null : 0);
  if (worth === null) throw noReward(playing);
  return {
    message: null,
    reward: worth,
    rewards,
    terminated: true,
    truncated: false,
    metadata,
    next_stop_strings: null,
  };
}

function noReward({ ref, journal: { trajectory } }: Playing): Fault {
  const task = trajectory.start?.task_name ?? '';
  return new Fault({
    type: 'EnvironmentRejected',
    message: `the program of ${rolloutId(ref)} ended without a reward: expected that it returns one, since environment ${task} has no \`verify\``,
  });
}

/** Starting over would run the program again. */
const withoutSession = (error: unknown): unknown =>
  error instanceof Fault && error.type === 'EnvironmentStateLost'
    ? new Fault({
        type: 'EnvironmentRejected',
        message: `${error.message}; expected an environment without sessions as \`verify\``,
        cause: error,
      })
    : error;
