import type {
  GenerationEnd,
  GenerationRequest,
  GenerationService,
  Lease,
} from '../generation/generation-service.js';
import { rolloutId } from '../model/batch-request.js';
import type { RolloutSettings } from '../model/journal.js';
import { seedOf } from '../model/seeds.js';
import { nextStep, roomFor } from '../model/stop-rules.js';
import { recordChunks } from './chunk-recorder.js';
import type { Activities } from './contract.js';
import type { Dependencies } from './dependencies.js';
import type { Hold } from './hold.js';
import { notStarted, poolOf, recordFault } from './hold.js';
import { playFromJournal } from './play-from-journal.js';

/** Generates the turn in progress, unless the journal holds its generation already. */
export function createGenerateTurn(dependencies: Dependencies): Activities['generateTurn'] {
  return playFromJournal(dependencies, {
    activity: 'generateTurn',
    play: async (hold) => {
      if (nextStep(hold.journal.trajectory) === 'generate') await generate(hold, dependencies);
    },
  });
}

/**
 * One generation, from the log to the journal. Chunks are written while they stream; the `generation` line, once
 * there, is what a retried activity finds instead of calling the engine. A cut generation starts over.
 */
export async function generate(hold: Hold, dependencies: Dependencies): Promise<void> {
  const { journal, ref, signal } = hold;
  const { start } = journal.trajectory;
  if (start === null) throw notStarted(ref);
  const { settings } = start;
  // Without room there is nothing to wait in line for.
  const is_generation = roomFor(journal.trajectory) > 0;
  await poolOf(settings, dependencies).request(
    { session_id: rolloutId(ref), signal, is_generation },
    (service, lease) => generateOn(service, { hold, settings, lease }),
  );
}

async function generateOn(
  service: GenerationService,
  { hold, settings, lease }: { hold: Hold; settings: RolloutSettings; lease: Lease },
): Promise<void> {
  const { journal, signal } = hold;
  const { turns, open } = journal.trajectory;
  const turn = turns.length;
  const request = requestFor(hold, settings);
  const facts = {
    turn,
    replica: service.replica,
    request_id: request.request_id,
    policy_version: settings.policy_version,
  };
  // An earlier attempt's tokens stand in the journal until a chunk takes their place, even when this turn stays empty.
  if (open.token_ids.length > 0) {
    await journal.append({
      kind: 'chunk',
      ...facts,
      offset: 0,
      token_ids: [],
      logprobs: [],
      text: '',
    });
  }
  const broken = new AbortController();
  const recorder = recordChunks(journal, {
    facts,
    onFailure: (error) => {
      broken.abort(error);
    },
  });
  try {
    const end =
      request.max_tokens <= 0
        ? EMPTY
        : await service.generate(request, {
            signal: AbortSignal.any([signal, broken.signal]),
            onDelta: (delta) => {
              recorder.add(delta);
            },
          });
    await recorder.flush();
    await journal.append({
      kind: 'generation',
      turn,
      ...end,
      queue_s: lease.waited_s + end.queue_s,
      content: open.text,
      token_count: open.token_ids.length,
    });
  } catch (error) {
    await recorder.flush();
    throw await recordFault(error, hold);
  }
}

/** The log leaves no room: nothing is generated, and the environment still steps (upstream statement 3.2 #6). */
const EMPTY: GenerationEnd = {
  finish_reason: 'length',
  stop_reason: null,
  queue_s: 0,
  generate_s: 0,
};

function requestFor({ journal, ref }: Hold, settings: RolloutSettings): GenerationRequest {
  const { trajectory, writer } = journal;
  const { generation, model } = settings;
  const turn = trajectory.turns.length;
  return {
    prompt_ids: trajectory.context_ids,
    model,
    max_tokens: roomFor(trajectory),
    temperature: generation.greedy ? 0 : generation.temperature,
    top_p: generation.top_p,
    top_k: generation.top_k,
    min_p: generation.min_p,
    seed: seedOf(settings, { ...ref, turn, inherited: 0 }),
    stop_strings: [...new Set([...generation.stop_strings, ...(trajectory.stop_strings ?? [])])],
    stop_token_ids: generation.stop_token_ids,
    logprobs: generation.include_logprobs,
    request_id: `${rolloutId(ref)}.${turn}.${writer}`,
    session_id: rolloutId(ref),
  };
}
