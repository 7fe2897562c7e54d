import { z } from 'zod';
import { describeError } from '../../../src/platform/errors.js';
import type { Engine } from '../../engine.js';
import type { FaultSpec } from '../../settings.js';
import type { WeightStore } from '../../weights.js';
import { readWeights, WeightsFile } from '../../weights.js';
import { readBody } from '../body-reader.js';
import { sendJson, sendText, type Exchange } from '../http-exchange.js';
import type { FrontEnd } from './front-end.js';
import { PAUSES } from './front-end.js';

interface WeightsParts {
  engine: Engine;
  weights: WeightStore;
  front: FrontEnd;
  takesWeights: () => void;
  hang: (fault: FaultSpec) => Promise<void>;
}

const NOT_FLUSHED =
  'Weights were updated, but the cache was not flushed because requests are still running or queued. Retract or finish them, then call /flush_cache.';

const say = (exchange: Exchange, { success, ...more }: { success: boolean; message: string }) => {
  sendJson(exchange, { status: success ? 200 : 400, body: { success, ...more } });
};

/** Where a trainer holds an engine while it changes the weights (captures 04 to 10). */
export function createWeightsEndpoints(parts: WeightsParts) {
  const { engine, weights, front, takesWeights } = parts;
  const done = (exchange: Exchange, what: string): void => {
    const body = { message: `Generation ${what} successfully.`, status: 'ok' };
    sendJson(exchange, { status: 200, body });
  };
  return {
    '/pause_generation': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { mode } = await readBody(exchange, Pausing);
        await front.pause(mode, exchange.response);
        done(exchange, 'paused');
      },
    },
    '/continue_generation': {
      POST: async (exchange: Exchange): Promise<void> => {
        await readBody(exchange, z.looseObject({}));
        front.resume();
        done(exchange, 'continued');
      },
    },
    '/abort_request': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { rid, abort_all } = await readBody(exchange, Abort);
        if (abort_all) front.abort();
        else if (rid !== '' && engine.has(rid)) front.abort(rid);
        sendText(exchange, { status: 200, type: null, text: '' });
      },
    },
    '/flush_cache': {
      POST: (exchange: Exchange): void => {
        const text = front.isIdle() ? 'Cache flushed.\n' : 'Flush cache failed.\n';
        sendText(exchange, { status: front.isIdle() ? 200 : 400, type: null, text });
      },
    },
    '/update_weights_from_disk': {
      POST: async (exchange: Exchange, fault: FaultSpec | null): Promise<void> => {
        const { model_path, ...how } = await readBody(exchange, FromDisk);
        if (how.abort_all_requests) front.abort();
        takesWeights();
        const isRunning = !front.isPaused();
        // It waits for what runs.
        if (isRunning) await engine.pause('wait');
        const failure = await loaded(weights, { path: model_path, fault });
        if (failure === null && how.weight_version != null)
          front.setLabel(how.weight_version, !how.flush_cache || front.isIdle());
        const isFlushed = !how.flush_cache || front.isIdle();
        if (isRunning) engine.resume();
        const success = failure === null && isFlushed;
        if (success) front.rename(model_path);
        const message = failure ?? (isFlushed ? updated(how) : NOT_FLUSHED);
        say(exchange, { success, message, ...{ num_paused_requests: 0 } });
      },
    },
    /** Only the label, without any weights. */
    '/update_weight_version': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { new_version, abort_all_requests } = await readBody(exchange, Version);
        if (abort_all_requests) front.abort();
        front.setLabel(new_version, true);
        say(exchange, {
          success: true,
          message: `Weight version updated to ${new_version}`,
          ...{ new_version },
        });
      },
    },
    ...createTransferEndpoints(parts),
  };
}

const updated = ({ weight_version }: { weight_version?: string | null | undefined }): string =>
  `Succeeded to update model weights.${weight_version == null ? '' : ` Weight version updated to ${weight_version}.`}`;

/** Why it has not taken them; null: it has. */
async function loaded(
  weights: WeightStore,
  { path, fault }: { path: string; fault: FaultSpec | null },
): Promise<string | null> {
  try {
    const read = await readWeights(path);
    if (fault?.fault !== 'load_nothing') weights.load(read, { half: fault?.fault === 'load_half' });
  } catch (error) {
    return `Failed to get weights iterator: ${describeError(error)}.`;
  }
  const isHalf = fault?.fault === 'load_half' && fault.says === 'failure';
  return isHalf ? 'Failed to update weights: CUDA error: an illegal memory access.' : null;
}

/** Where a trainer sends weights itself. Its tensors are those of a file of weights, in parts. */
function createTransferEndpoints({ weights, front, takesWeights, hang }: WeightsParts) {
  const attempt = (exchange: Exchange, run: () => string): void => {
    try {
      say(exchange, { success: true, message: run() });
    } catch (error) {
      say(exchange, { success: false, message: describeError(error) });
    }
  };
  return {
    '/begin_weight_update': {
      POST: (exchange: Exchange): void => {
        attempt(exchange, () => {
          weights.startTransfer();
          return 'Success';
        });
      },
    },
    '/end_weight_update': {
      POST: (exchange: Exchange): void => {
        attempt(exchange, () => {
          weights.endTransfer();
          return 'Success';
        });
      },
    },
    '/update_weights_from_distributed': {
      POST: async (exchange: Exchange, fault: FaultSpec | null): Promise<void> => {
        const sent = await readBody(exchange, Sent);
        takesWeights();
        if (fault?.fault === 'hang') await hang(fault);
        attempt(exchange, () => {
          if (fault?.fault === 'hang') {
            weights.breakTransfer();
            throw new Error('Failed to receive weights: the collective was aborted');
          }
          if (fault?.fault !== 'load_nothing') weights.receive(sent);
          const isFlushed = !sent.flush_cache || front.isIdle();
          if (sent.weight_version != null) front.setLabel(sent.weight_version, isFlushed);
          if (!isFlushed) throw new Error(NOT_FLUSHED);
          return 'Succeeded to update parameter online.';
        });
      },
    },
  };
}

const Pausing = z.looseObject({ mode: z.enum(PAUSES).default('abort') });
const Abort = z.looseObject({ rid: z.string().default(''), abort_all: z.boolean().default(false) });
const FromDisk = z.looseObject({
  model_path: z.string().min(1),
  weight_version: z.string().nullish(),
  flush_cache: z.boolean().default(true),
  abort_all_requests: z.boolean().default(false),
});
const Version = z.looseObject({
  new_version: z.string(),
  abort_all_requests: z.boolean().default(true),
});
const Sent = z.looseObject({
  weights: WeightsFile,
  part: z.int().nonnegative().default(0),
  parts: z.int().positive().default(1),
  weight_version: z.string().nullish(),
  flush_cache: z.boolean().default(true),
});
