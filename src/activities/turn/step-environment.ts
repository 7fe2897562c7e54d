import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { textLog, textOf } from '../../model/content.js';
import { Fault } from '../../model/faults.js';
import type { LineOf } from '../../model/journal.js';
import { environmentCall } from '../../model/journal/standing.js';
import { isUpstream } from '../../model/semantics.js';
import { preview } from '../../model/problems.js';
import type { PlacedPicture } from '../../model/pictures.js';
import { idsAfterGeneration } from '../../model/turn/turn-end.js';
import { lengthLimit, limitObservation, nextStep } from '../../model/turn/stop-rules.js';
import { messageLog } from '../../model/journal/message-log.js';
import { glanceOf } from '../../model/journal/outcome.js';
import { withReward } from '../../model/journal/reward-sum.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import {
  contextLength,
  isProgram,
  totalsOf,
  type Trajectory,
} from '../../model/journal/trajectory.js';
import type { Share } from '../../platform/waits/allowance.js';
import { withShare } from '../../platform/waits/allowance.js';
import { checkBounds, journalled, type Answer, type AskedStep } from './answer.js';
import { environmentFault, stepInSession } from './session.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { poolOf, sharerOf } from '../playing.js';
import { unknownTask } from '../unknown-task.js';
import { recordFault } from '../record-fault.js';
import { pictureRoute, placed, shelved, withPicturesOf } from '../pictures.js';
import { verdictOf, withoutSession } from '../agent/verify-program.js';
import { playOpened } from '../play-from-journal.js';

/** Answers the generated turn, unless the journal already has the answer. */
export const stepEnvironment = playOpened('stepEnvironment', async (playing, dependencies) => {
  if (nextStep(playing.journal.trajectory) === 'step') await step(playing, dependencies);
});

/**
 * What the environment says, from its question to the journal: of a turn, with its ids and how many of them fit, or of
 * all that an agent did. The reward is in the `observation` line; model/journal/reward-sum.ts adds it up.
 */
export async function step(playing: Playing, dependencies: Dependencies): Promise<void> {
  const { trajectory } = playing.journal;
  try {
    checkPrefixWeights(trajectory);
    // Large answers hold a share until they are journalled.
    await withShare(dependencies.answers, (share) => observe(playing, { ...dependencies, share }));
  } catch (error) {
    if (!isProgram(trajectory)) throw await recordFault(error, playing);
    const { length: turn } = trajectory.calls;
    throw await recordFault(withoutSession(error), { ...playing, turn });
  }
}

/** With `train_prefix`, all tokens must be of one policy. */
function checkPrefixWeights({ start, calls }: Trajectory): void {
  if (start?.fork?.train_prefix !== true) return;
  const sampled = calls.flatMap(({ sampled: { segments } }) => segments);
  const before = sampled.find(({ is_prefix }) => is_prefix);
  const own = sampled.find(({ is_prefix }) => !is_prefix);
  if (!before || !own || before.policy_version === own.policy_version) return;
  throw new Fault({
    type: 'PolicyVersionMismatch',
    message: `fork.train_prefix: expected tokens of version ${preview(before.policy_version)}, which has sampled those before ${start.fork.at}, got tokens of ${preview(own.policy_version)}`,
    retryable: false,
  });
}

async function observe(
  playing: Playing,
  { share, ...dependencies }: Dependencies & { share: Share },
): Promise<void> {
  const { trajectory } = playing.journal;
  const isAgent = isProgram(trajectory);
  const began = performance.now();
  const asked = isAgent ? await verdictOf(playing, dependencies) : turnOf(trajectory);
  const { answer, waited_ms } =
    'task' in asked
      ? await askEnvironment(playing, { ...dependencies, share, asked })
      : { answer: asked, waited_ms: null };
  const seen = isAgent ? { token_ids: [] } : await seenOf(answer, { playing, dependencies });
  const sampled = isAgent ? 0 : openAnswer(trajectory).token_ids.length;
  const semantics = trajectory.start?.settings.semantics ?? 'standard';
  await playing.journal.append({
    kind: 'observation',
    turn: Math.max(0, trajectory.calls.length - 1),
    ...answer,
    ...seen,
    total_tokens: totalsOf(trajectory).total_tokens + sampled + seen.token_ids.length,
    glance: {
      ...glanceOf(trajectory),
      total_reward: withReward(trajectory, { line: answer, semantics }).total_reward,
    },
    step_s: waited_ms === null ? 0 : (performance.now() - began - waited_ms) / 1000,
  });
}

/** What the policy reads of an answer, and whether that is all. */
async function seenOf(
  answer: Answer,
  { playing, dependencies }: { playing: Playing; dependencies: Dependencies },
): Promise<Pick<LineOf<'observation'>, 'token_ids' | 'pictures' | 'truncated'>> {
  const { trajectory } = playing.journal;
  const { generation, token_ids } = openAnswer(trajectory);
  const encoded = await encode(answer, { playing, dependencies });
  const limited = limitObservation(encoded.token_ids, {
    semantics: trajectory.settings_in_force?.semantics ?? 'standard',
    max_seq_len: lengthLimit(trajectory),
    input_tokens: contextLength(trajectory),
    generated_tokens: token_ids.length,
    finish_reason: generation?.finish_reason ?? 'stop',
  });
  return {
    ...kept(limited.token_ids, encoded.pictures),
    truncated: answer.truncated || limited.truncated,
  };
}

export function turnOf(trajectory: Trajectory): AskedStep {
  const log = textLog(messageLog(trajectory));
  log.push({ role: 'assistant', content: openAnswer(trajectory).generation?.content ?? '' });
  return {
    task: trajectory.start?.task_name ?? '',
    turn: { message_log: log, metadata: trajectory.extra_env_info },
    prompt_length: trajectory.start?.prompt.length ?? 0,
  };
}

/** Waits for a place at the environment, and asks it. */
export async function askEnvironment(
  playing: Playing,
  { share, asked, ...dependencies }: Dependencies & { share: Share; asked: AskedStep },
): Promise<{ answer: Answer; waited_ms: number }> {
  const { environment, known, store, storeId } = dependencies;
  const { task, turn, prompt_length } = asked;
  const { ref, signal } = playing;
  const { trajectory } = playing.journal;
  const { start } = trajectory;
  const deployed = environment(task);
  if (deployed === undefined)
    throw new Fault({ type: 'EnvironmentRejected', message: unknownTask(task, known) });
  const context = {
    idempotency_key: `${rolloutId(ref)}/${trajectory.observations.length}`,
    deployment: await storeId(),
    // A journal has one start, which a restart removes with the rest.
    play: start?.writer,
    signal,
    share,
    ...(start !== null && !isUpstream(start.settings.semantics) && { prompt_length }),
  };
  const ask = async (more: { was_asked?: true } = {}): Promise<Answer> => {
    const given = await playing.asks({ call: environmentCall(task), moved_at: () => null }, () =>
      deployed.environment.step(turn, { ...context, ...more }),
    );
    const answer = journalled(given, task);
    const observed = [...trajectory.observations, answer];
    checkBounds({
      task,
      said: observed.map(({ message }) => message?.content ?? ''),
      when: 'in all observations',
      metadata: answer.metadata,
      brought: start?.extra_env_info,
    });
    return await shelved(answer, { ref, store });
  };
  try {
    if (trajectory.session.gone !== null)
      throw new Fault({ type: 'EnvironmentStateLost', message: trajectory.session.gone });
    const began = performance.now();
    const who = { sharer: sharerOf(playing), session_id: rolloutId(ref), signal };
    return await deployed.inPlace(who, async () => {
      const waited_ms = performance.now() - began;
      const once = deployed.environment.steps_once === true;
      return { answer: once ? await stepInSession(playing, ask) : await ask(), waited_ms };
    });
  } catch (error) {
    throw environmentFault(task, { error, signal });
  }
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

/** The ids that were not cut. A picture that is cut goes with all of its ids, since a part of them is useless. */
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
