import type { EnvironmentMessage } from '../../environments/environment.js';
import { textLog } from '../../model/content.js';
import { Fault } from '../../model/faults.js';
import { withField, type ForeignObject } from '../../model/foreign-object.js';
import { answered } from '../../model/journal/calls.js';
import type { Life } from '../../model/journal/lives.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { sequencesOf } from '../../model/results/sequences.js';
import { isSampled } from '../../model/results/train-mask.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { journalLost } from '../playing.js';
import { sampleOf } from '../request-of.js';
import type { Answer, AskedStep } from '../turn/answer.js';

/**
 * What a program's rollout is worth: what its service has said, or what another environment is to be asked of its main
 * sequence. The program does not run again, however often this is asked.
 */
export async function verdictOf(
  playing: Playing,
  { store }: Pick<Dependencies, 'store'>,
): Promise<Answer | AskedStep> {
  const { start, lives } = playing.journal.trajectory;
  const life = lives.at(-1);
  const verify = start?.program?.verify ?? null;
  if (life === undefined) throw journalLost(playing.ref, { lacks: "its program's end", store });
  return verify === null
    ? ownAnswer(life, playing)
    : await askedOf(playing, { verify, life, store });
}

async function askedOf(
  { ref, journal: { trajectory } }: Playing,
  { verify, life, store }: { verify: string; life: Life } & Pick<Dependencies, 'store'>,
): Promise<AskedStep> {
  const main = sequencesOf(trajectory)?.sequences[0]?.message_log ?? [];
  const { sample } = await sampleOf(ref, store);
  const submission = life.exit?.submission ?? '';
  // Graders read the last message as the policy's. A program may submit without asking the policy.
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
function ownAnswer({ exit, refusal }: Life, { ref, journal }: Playing): Answer {
  const { reward = null, rewards = {}, metadata = null } = exit?.said ?? {};
  const named = Object.values(rewards);
  const sum = named.length === 0 ? null : named.reduce((total, one) => total + one, 0);
  const worth = reward ?? sum ?? (refusal === null ? null : 0);
  if (worth === null) {
    const task = journal.trajectory.start?.task_name ?? '';
    throw new Fault({
      type: 'EnvironmentRejected',
      message: `the program of ${rolloutId(ref)} ended without a reward: expected it to return one, since environment ${task} has no \`verify\``,
    });
  }
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

/** Starting over would run the program again. */
export const withoutSession = (error: unknown): unknown =>
  error instanceof Fault && error.type === 'EnvironmentStateLost'
    ? new Fault({
        type: 'EnvironmentRejected',
        message: `${error.message}; expected an environment without sessions as \`verify\``,
        cause: error,
      })
    : error;
