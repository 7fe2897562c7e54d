import type { ControlOptions } from '../adapter.js';
import type { Ask } from '../wire/ask.js';
import { createAsk } from '../wire/ask.js';
import type { Calls, HttpOptions } from '../wire/http.js';
import { createCalls, serverRoot } from '../wire/http.js';

/** The engine, and where its weights are changed and have their label. */
export interface Asked {
  replica: string;
  engine: Ask;
  control: Ask;
}

const METRICS_BYTES = 4 * 2 ** 20;

export function connect(options: ControlOptions) {
  const { replica, control_url, api_key, control_api_key, answers, lookupFor } = options;
  const at = (base_url: string, key: string | null): HttpOptions => ({
    base_url,
    api_key: key,
    ...(lookupFor !== undefined && { lookup: lookupFor(base_url) }),
  });
  const http = at(replica, api_key);
  const controlled = at(control_url ?? replica, control_api_key ?? api_key);
  const open: Calls[] = [];
  // Belongs to no rollout.
  const asking = (options: HttpOptions, how?: { keep_alive_ms: number }): Ask => {
    const calls = createCalls(options, how);
    open.push(calls);
    return createAsk(calls, { replica, session_id: 'weights-probe' });
  };
  const kept = answers === undefined ? {} : { answers };
  const fresh = { max_answer_bytes: METRICS_BYTES };
  return {
    replica,
    control_url: control_url ?? serverRoot(replica),
    http,
    engine: asking({ ...http, ...kept }),
    control: asking({ ...controlled, ...kept }),
    /** On a connection of its own for each question. */
    anew: {
      replica,
      engine: asking({ ...http, ...fresh }, { keep_alive_ms: 0 }),
      control: asking({ ...controlled, ...fresh }, { keep_alive_ms: 0 }),
    },
    close: async (): Promise<void> => {
      await Promise.all(open.map((calls) => calls.close()));
    },
  };
}
