import { z } from 'zod';
import { listOf } from '../../model/untrusted.js';
import { createHttpCall, type HttpCallSettings, readReply } from '../http/call.js';
import { rejected } from '../rejections.js';
import type { Ran, Sandbox } from '../../sandbox/snippets/outcomes.js';
import { Excess, Outcomes } from '../../sandbox/snippets/outcomes.js';
import type { CodeSettings } from './settings.js';
import { limitsOf } from './settings.js';

/**
 * A sandbox behind HTTP. `POST {url}/run` with `{session, semantics, limits, history, blocks}`: the code of earlier
 * turns and of this one. The service also runs the history, unless the session's interpreter is in exactly that state.
 * It answers `{replayed, ran}`: the outcome of each turn of the history (null: it did not run again) and of this one,
 * each `{"outcomes": [..]}` or `{"killed": reason}` as in `outcomes.ts`. `GET {url}/health` answers 2xx.
 */

const RanThere = z.union([z.object({ outcomes: Outcomes }), z.object({ killed: Excess })], {
  error: 'expected {"outcomes": [..]} or {"killed": reason}',
});

const Reply = z.object({ replayed: listOf(RanThere).nullable(), ran: RanThere });

/** For the network, in addition to the time limit of the code. */
const GRACE_MS = 10_000;
const MAX_TURNS_IN_TIME = 20;

export function createRemoteSandbox({
  url: at,
  settings,
  ...bounds
}: Pick<HttpCallSettings, 'url' | 'token' | 'max_answer_bytes' | 'answers'> & {
  settings: CodeSettings;
}): Sandbox {
  const limits = limitsOf(settings);
  const timeout_ms = limits.timeout_ms * MAX_TURNS_IN_TIME + GRACE_MS;
  const { send: call, close } = createHttpCall({ ...bounds, url: at, timeout_ms });
  return {
    level: async (signal) => {
      await call({ method: 'GET', path: '/health', signal });
      return `remote ${at}`;
    },

    run: async ({ session, history, blocks, check, signal }): Promise<Ran> => {
      const { semantics } = settings;
      const body = { session, semantics, limits, history, blocks };
      const reply = await call({ method: 'POST', path: '/run', body, signal });
      const { replayed, ran } = readReply(reply, { schema: Reply, at });
      if (replayed !== null && replayed.length !== history.length) {
        const what = `expected ${history.length}, one per turn of the history, got ${replayed.length}`;
        const subject = `${reply.request} answered`;
        throw rejected({ subject, at, problems: [{ where: 'replayed', what }] });
      }
      for (const [turn, again] of (replayed ?? []).entries()) check(turn, again);
      return ran;
    },

    close,
  };
}
