import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { textLog, textOf } from '../../model/content.js';
import type { LineOf } from '../../model/journal.js';
import type { PlacedPicture } from '../../model/pictures.js';
import { idsAfterGeneration } from '../../model/turn/turn-end.js';
import { lengthLimit, limitObservation, nextStep } from '../../model/turn/stop-rules.js';
import { messageLog } from '../../model/journal/message-log.js';
import { glanceOf } from '../../model/journal/outcome.js';
import { rewardWith } from '../../model/journal/reward-sum.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import {
  contextLength,
  isProgram,
  totalsOf,
  type Trajectory,
} from '../../model/journal/trajectory.js';
import type { Share } from '../../platform/waits/allowance.js';
import { withShare } from '../../platform/waits/allowance.js';
import type { Answer } from './answer.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { journalLost, poolOf } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { pictureRoute, placed, withPicturesOf } from '../pictures.js';
import { verifyProgram } from '../agent/verify-program.js';
import { playOpened } from '../play-from-journal.js';
import { askEnvironment, type AskedStep } from './ask-environment.js';

/** Answers the generated turn, unless the journal already has the answer. */
export function createStepEnvironment(dependencies: Dependencies): Activities['stepEnvironment'] {
  return playOpened(dependencies, {
    activity: 'stepEnvironment',
    play: async (playing) => {
      if (nextStep(playing.journal.trajectory) === 'step') await step(playing, dependencies);
    },
  });
}

/**
 * One step, from the turn to the journal: the environment's answer, its observation's ids, and how many of them fit.
 * The reward is in the `observation` line; model/journal/reward-sum.ts adds it up.
 */
export async function step(playing: Playing, dependencies: Dependencies): Promise<void> {
  const { trajectory } = playing.journal;
  if (isProgram(trajectory)) {
    await verifyProgram(playing, dependencies);
    return;
  }
  if (trajectory.start === null || openAnswer(trajectory).generation === null)
    throw journalLost(playing.ref, { lacks: 'its turn', store: dependencies.store });
  try {
    await withShare(dependencies.answers, (share) =>
      answerTurn(playing, { ...dependencies, share }),
    );
  } catch (error) {
    throw await recordFault(error, playing);
  }
}

/** Holds a share of the allowance for large answers until the answer is journalled. */
async function answerTurn(
  playing: Playing,
  { share, ...dependencies }: Dependencies & { share: Share },
): Promise<void> {
  const { trajectory } = playing.journal;
  const { settings_in_force: settings } = trajectory;
  const open = openAnswer(trajectory);
  if (settings === null || open.generation === null)
    throw journalLost(playing.ref, { lacks: 'its turn', store: dependencies.store });
  const began = performance.now();
  const { answer, waited_ms } = await askEnvironment(playing, {
    ...dependencies,
    share,
    asked: turnOf(trajectory),
  });
  const { token_ids: ids, pictures } = await encode(answer, { playing, dependencies });
  const limited = limitObservation(ids, {
    semantics: settings.semantics,
    max_seq_len: lengthLimit(trajectory),
    input_tokens: contextLength(trajectory),
    generated_tokens: open.token_ids.length,
    finish_reason: open.generation.finish_reason,
  });
  const seen = kept(limited.token_ids, pictures);
  await playing.journal.append({
    kind: 'observation',
    turn: trajectory.observations.length,
    ...answer,
    ...seen,
    truncated: answer.truncated || limited.truncated,
    total_tokens: totalsOf(trajectory).total_tokens + open.token_ids.length + seen.token_ids.length,
    glance: {
      ...glanceOf(trajectory),
      total_reward: rewardWith(trajectory, { line: answer, semantics: settings.semantics }),
    },
    step_s: (performance.now() - began - waited_ms) / 1000,
  });
}

function turnOf(trajectory: Trajectory): AskedStep {
  const log = textLog(messageLog(trajectory));
  log.push({ role: 'assistant', content: openAnswer(trajectory).generation?.content ?? '' });
  return {
    task: trajectory.start?.task_name ?? '',
    turn: { message_log: log, metadata: trajectory.extra_env_info },
    prompt_length: trajectory.start?.prompt.length ?? 0,
  };
}

/**
 * The ids that the policy reads next: the answer as the chat template renders it after the policy's turn, or its text
 * without special tokens and without a template.
 */
async function encode(
  { message, terminated, truncated }: Answer,
  { playing, dependencies }: { playing: Playing; dependencies: Dependencies },
): Promise<Encoded> {
  const { trajectory } = playing.journal;
  const { settings_in_force: settings } = trajectory;
  if (settings === null || message === null) return NOTHING;
  const { model, generation } = settings;
  const { content } = message;
  const isChat = generation.observation_format === 'chat';
  // If the rollout continues, the template adds something even around an empty text.
  if (content === '' && (!isChat || terminated || truncated)) return NOTHING;
  const { chat_template_kwargs } = generation;
  const { signal, ref } = playing;
  const pool = poolOf(settings, dependencies);
  const shown = await withPicturesOf(message, { ref, pool, isChat, ...dependencies });
  const turn = { model, message: shown.message, chat_template_kwargs };
  const { token_ids: ids, places } = await pool.request(
    { session_id: rolloutId(ref), signal, is_generation: false },
    async (service) => {
      if (shown.is_sent) return await pictureRoute(service).renderTurn(turn, signal);
      const text = textOf(content);
      const token_ids = isChat
        ? await service.renderTurn(turn, signal)
        : await service.tokenize({ model, text, add_special_tokens: false }, signal);
      return { token_ids, places: [] };
    },
  );
  if (!isChat) return { token_ids: ids, pictures: [] };
  const token_ids = idsAfterGeneration(openAnswer(trajectory).token_ids, ids);
  const before = ids.length - token_ids.length;
  const pictures = placed({ places }, [message]);
  return { token_ids, pictures: pictures.map((one) => ({ ...one, offset: one.offset - before })) };
}

interface Encoded {
  token_ids: number[];
  pictures: PlacedPicture[];
}

const NOTHING: Encoded = { token_ids: [], pictures: [] };

/** What was not cut. A picture that is cut goes with all of its ids: nobody can compute with some of them. */
function kept(
  token_ids: readonly number[],
  pictures: readonly PlacedPicture[],
): Pick<LineOf<'observation'>, 'token_ids' | 'pictures'> {
  const isWhole = ({ offset, length }: PlacedPicture): boolean =>
    offset + length <= token_ids.length;
  const cut = pictures.find((one) => !isWhole(one));
  const whole = pictures.filter(isWhole);
  return {
    token_ids: token_ids.slice(0, cut?.offset),
    ...(whole.length > 0 && { pictures: whole }),
  };
}
