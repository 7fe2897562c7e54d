import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { TurnAddress } from './rollout-address.js';
import { fromIdempotencyKey, rolloutIdOf } from './rollout-address.js';
import type { Exchange } from './json-server.js';
import { sendJson, startJsonServer } from './json-server.js';

/** A received step. */
export interface CountdownStep {
  key: string;
  rollout_id: string;
  turn: number;
  /** Milliseconds since the epoch, on arrival. */
  at: number;
  answered: boolean;
}

export interface CountdownEnvironment {
  url: string;
  /** In the order of arrival. */
  steps: readonly CountdownStep[];
  close: () => Promise<void>;
}

const StepBody = z.object({
  message_log_batch: z.tuple([z.array(z.object({ role: z.string(), content: z.string() }))]),
  metadata: z.tuple([z.object({ left: z.int() })]),
});

/**
 * A slow environment behind HTTP that is a function of its input: it counts `left` down to 0 and rewards a reply by its
 * length. `shows`: the URL of a picture beside the number.
 */
export async function startCountdownEnvironment(
  step_ms: number,
  shows: (left: number) => string | null = () => null,
): Promise<CountdownEnvironment> {
  const steps: CountdownStep[] = [];
  const server = await startJsonServer(
    (exchange) => answer(exchange, { steps, step_ms, shows }),
    (error, { response }) => {
      const { name: type, message } = error instanceof Error ? error : new Error(String(error));
      sendJson(response, { status: 400, body: { error: { type, message } } });
    },
  );
  return { url: server.url, steps, close: server.close };
}

async function answer(
  { route, header, body, response }: Exchange,
  {
    steps,
    step_ms,
    shows,
  }: { steps: CountdownStep[]; step_ms: number; shows: (left: number) => string | null },
): Promise<void> {
  if (route === 'POST /begin' || route === 'POST /end') {
    sendJson(response, { status: 404, body: {} });
    return;
  }
  if (route !== 'POST /step') throw new Error(`${route} is not for this environment`);
  const key = header('idempotency-key') ?? '';
  const address: TurnAddress = fromIdempotencyKey(key);
  const step: CountdownStep = {
    key,
    rollout_id: rolloutIdOf(address),
    turn: address.turn,
    at: Date.now(),
    answered: false,
  };
  steps.push(step);
  const {
    message_log_batch: [log],
    metadata: [{ left: before }],
  } = StepBody.parse(body);
  await sleep(step_ms);
  const left = before - 1;
  step.answered = true;
  sendJson(response, {
    body: {
      observations: [{ role: 'environment', content: contentOf(left, shows(left)) }],
      metadata: [{ left }],
      next_stop_strings: null,
      // Malformed bytes do not count, because decoders differ in the number of U+FFFD.
      rewards: [(log.at(-1)?.content.replaceAll('\uFFFD', '').length ?? 0) / 16],
      terminateds: [left === 0],
    },
  });
}

function contentOf(left: number, url: string | null): unknown {
  const text = `${left} left\n`;
  if (url === null) return text;
  return [
    { type: 'text', text },
    { type: 'image_url', image_url: { url } },
  ];
}
