import { z } from 'zod';
import { describeError } from '../../src/platform/errors.js';
import type { FaultSpec, SimulatorSettings } from '../settings.js';
import type { WeightStore } from '../weights.js';
import { WeightsFile } from '../weights.js';
import { readBody } from './body-reader.js';
import { workerFailed } from './fault-answers.js';
import { sendJson, type Exchange } from './http-exchange.js';

/** Where a trainer sends weights itself, in the terms of vLLM. Its tensors are those of a file of weights, in parts. */
export function createTransferEndpoints(
  weights: WeightStore,
  { settings, hang, takesWeights }: TransferParts,
) {
  return {
    '/get_world_size': {
      GET: (exchange: Exchange): void => {
        sendJson(exchange, { status: 200, body: { world_size: settings.world_size } });
      },
    },
    '/init_weight_transfer_engine': {
      POST: async (exchange: Exchange): Promise<void> => {
        await readBody(exchange, Init);
        say(exchange, 'Weight transfer initialized');
      },
    },
    '/start_weight_update': {
      POST: (exchange: Exchange): void => {
        orRefused(weights.startTransfer);
        say(exchange, 'Weight update started');
      },
    },
    '/update_weights': {
      POST: async (exchange: Exchange, fault: FaultSpec | null): Promise<void> => {
        const { update_info } = await readBody(exchange, Update);
        takesWeights();
        if (fault?.fault === 'hang') {
          await hang(fault);
          weights.breakTransfer();
          throw workerFailed('the collective was aborted');
        }
        if (fault?.fault !== 'load_nothing')
          orRefused(() => {
            weights.receive(update_info);
          });
        say(exchange, 'Weights updated');
      },
    },
    /** Sets any label that it is given, whatever has come. */
    '/finish_weight_update': {
      POST: async (exchange: Exchange): Promise<void> => {
        const { weight_version = null } = await readBody(exchange, Ending);
        orRefused(weights.endTransfer);
        if (weight_version !== null) weights.setLabel(weight_version);
        say(exchange, 'Weight update finished');
      },
    },
    '/shutdown_weight_transfer_engine': {
      POST: (exchange: Exchange): void => {
        say(exchange, 'Weight transfer shut down');
      },
    },
  };
}

interface TransferParts {
  settings: Pick<SimulatorSettings, 'world_size'>;
  hang: (fault: FaultSpec) => Promise<void>;
  /** They have to have memory. */
  takesWeights: () => void;
}

function orRefused(run: () => void): void {
  try {
    run();
  } catch (error) {
    throw workerFailed(describeError(error));
  }
}

function say(exchange: Exchange, message: string): void {
  sendJson(exchange, { status: 200, body: { message } });
}

const Init = z.looseObject({ init_info: z.looseObject({}) });
const Update = z.looseObject({
  update_info: z.looseObject({
    weights: WeightsFile,
    part: z.int().nonnegative().default(0),
    parts: z.int().positive().default(1),
  }),
});
const Ending = z.looseObject({ weight_version: z.string().nullish() });
