import { saidIn } from '../../model/calls/parsers/read-answer.js';
import type { Fault } from '../../model/faults.js';
import type { GenerationSettings } from '../../model/generation-settings.js';
import type { LineOf, RolloutSettings } from '../../model/journal.js';
import type { JournalCall } from '../../model/journal/calls.js';
import { promptOf } from '../../model/journal/calls.js';
import { glanceOf } from '../../model/journal/outcome.js';
import { openAnswer } from '../../model/journal/open-answers.js';
import { readJson } from '../../platform/json/kept.js';
import type { Call, Means } from '../../sampling/call.js';
import { sample } from '../../sampling/sample.js';
import { tapeOf } from '../../sampling/tape.js';
import type { Life } from '../life.js';
import { patiently } from './patience.js';
import type { PlayedCall } from './played-call.js';
import { contextFull, Refused } from '../request/refusals.js';
import { fieldIn, isForeignObject } from '../../model/foreign-object.js';
import type { Telling } from '../deliver/telling.js';
import { beforeStop, createTelling, sayable } from '../deliver/telling.js';

interface CallInPlay {
  call: PlayedCall;
  turn: number;
  signal: AbortSignal;
}

/** Samples what is missing, and says it. Throws as `patiently` does, and a `Refused` where the engine has no room. */
export async function playCall(
  { playing, times }: Pick<Life, 'playing' | 'times'>,
  played: CallInPlay,
): Promise<void> {
  const { call, turn, signal } = played;
  const { journal } = playing;
  const { calls } = journal.trajectory;
  const line = calls[turn];
  if (line === undefined || line.answer !== null) return;
  const settings = settingsFor(line, playing.generation());
  const stops = stopsOf(line, settings);
  const { generation } = settings;
  const telling = (call.telling ??= createTelling({
    ...{ playing, turn, stops, generation },
    news: call.news,
  }));
  const patience = {
    failed: (fault: Fault): Promise<unknown> => playing.failed(fault, turn),
    signal,
    retry_ms: times.retry_ms,
  };
  const asking = callOf({ playing, ...played }, { line, settings, stops });
  const means = meansOf({ playing, ...played });
  telling.look();
  await patiently(async () => {
    for (;;) {
      const outcome = await sample(asking, means);
      if (outcome === 'sampled') break;
      if (typeof outcome === 'object') throw outcome.failed;
    }
  }, patience);
  const { token_ids, generation: ended } = openAnswer(journal.trajectory, turn);
  if (ended === null) return;
  if (token_ids.length === 0 && ended.finish_reason === 'length' && asking.room > 0) {
    const tokens = line.prompt_length;
    throw new Refused(contextFull({ tokens, most: tokens }));
  }
  const text = await patiently(
    () => textOf({ token_ids, generation: ended }, { telling, stops, settings }),
    patience,
  );
  await journal.append({
    kind: 'answer',
    turn,
    ...saidIn(text, { ...playing.settings, ...line.line.asked, turn }),
    glance: glanceOf(journal.trajectory),
  });
  await journal.sync();
}

/** Its text without the stop string or token that ended it. Text that the program has seen stays. */
async function textOf(
  { token_ids, generation }: { token_ids: readonly number[]; generation: LineOf<'generation'> },
  { telling, stops, settings }: { telling: Telling; stops: readonly string[]; settings: Settings },
): Promise<string> {
  const { finish_reason, stop_reason } = generation;
  const isToken = finish_reason === 'stop' && typeof stop_reason !== 'string';
  // A stop token that the agent may read is one that ends turns all the same.
  const count = Math.max(0, isToken ? token_ids.length - 1 : token_ids.length);
  const whole = await telling.textOf(count);
  const min_tokens = settings.generation.min_tokens;
  const isStopped = typeof stop_reason === 'string';
  const text = !isStopped
    ? whole
    : min_tokens === 0
      ? beforeStop(whole, stops)
      : beforeLast(whole, stop_reason);
  const said = telling.said();
  return text.startsWith(said) ? text : said;
}

function beforeLast(text: string, stop: string): string {
  const at = text.lastIndexOf(stop);
  return at === -1 ? text : text.slice(0, at);
}

type Settings = Pick<
  RolloutSettings,
  'model' | 'policy_version' | 'max_version_span' | 'max_seq_len'
> & { generation: GenerationSettings };

/** The batch's, with what the answer has to look like where that is allowed. */
function settingsFor({ line }: Pick<JournalCall, 'line'>, settings: RolloutSettings): Settings {
  const { structured } = line.asked;
  if (structured === undefined) return settings;
  const structured_outputs = structureOf(readJson(structured));
  return { ...settings, generation: { ...settings.generation, structured_outputs } };
}

function structureOf(format: unknown): GenerationSettings['structured_outputs'] {
  const schema = fieldIn(fieldIn(format, 'json_schema'), 'schema');
  return isForeignObject(schema) ? { json: schema } : { json_object: true };
}

const stopsOf = ({ line }: Pick<JournalCall, 'line'>, { generation }: Settings): string[] => [
  ...new Set([...generation.stop_strings, ...(line.asked.stop ?? [])]),
];

const roomOf = (
  { line, prompt_length }: Pick<JournalCall, 'line' | 'prompt_length'>,
  {
    generation,
    max_seq_len,
  }: Pick<RolloutSettings, 'max_seq_len'> & {
    generation: Pick<GenerationSettings, 'max_new_tokens'>;
  },
): number =>
  Math.min(
    generation.max_new_tokens,
    line.asked.max_tokens ?? Infinity,
    max_seq_len - prompt_length,
  );

function callOf(
  { playing, call, turn }: CallInPlay & Pick<Life, 'playing'>,
  { line, settings, stops }: { line: JournalCall; settings: Settings; stops: readonly string[] },
): Call {
  const { journal, rollout_id, sharer, seed, eos_ids } = playing;
  const { trajectory, writer } = journal;
  const { generation } = settings;
  return {
    turn,
    prompt_ids: promptOf(trajectory.calls, turn),
    get room() {
      return roomOf(line, playing.generation());
    },
    stops,
    settings,
    request_id: `${rollout_id}.${turn}.${writer}${call.tries > 1 ? `-${call.tries - 1}` : ''}`,
    session_id: rollout_id,
    sharer,
    seed: (inherited) => seed({ turn, inherited }),
    said: () => sayable(openAnswer(trajectory, turn), { line: line.line, generation }),
    is_read: line.line.stream,
    shows_special_tokens: true,
    eos_ids,
  };
}

function meansOf({ playing, call, turn, signal }: CallInPlay & Pick<Life, 'playing'>): Means {
  const { journal, pool, waits } = playing;
  const tape = tapeOf(journal, turn);
  return {
    tape: {
      ...tape,
      append: async (entry) => {
        // Folded at once, and stored later.
        const appended = tape.append(entry);
        if (entry.kind === 'chunk') call.telling?.heard(entry);
        await appended;
        call.moved_ms = performance.now();
        call.telling?.look();
      },
    },
    pool,
    waits: {
      ...waits,
      // Once for each request.
      asks: (why, answer) => {
        call.telling?.resumes();
        return waits.asks(why, answer);
      },
      unserved: (why) => {
        call.unserved = why;
        waits.unserved(why);
      },
    },
    signal,
  };
}
