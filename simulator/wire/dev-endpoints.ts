import { z } from 'zod';
import { readBody } from './body-reader.js';
import type { Engine } from '../engine.js';
import { workerFailed } from './fault-answers.js';
import { createHang } from './hang.js';
import { sendJson, type Exchange } from './http-exchange.js';
import { describeError } from '../../src/platform/errors.js';
import type { FaultSpec, SimulatorSettings } from '../settings.js';
import type { WeightStore } from '../weights.js';
import { readWeights } from '../weights.js';
import { readMode } from './read-mode.js';
import { createSleep } from './sleep-endpoints.js';
import { createTransferEndpoints } from './transfer-endpoints.js';

/** Where a trainer can hold an engine while it changes the weights, in the terms of vLLM's development mode. */
export function createDevEndpoints(engine: Engine, { weights, settings, cleared, exit }: DevParts) {
  const hung = createHang(cleared);
  const sleep = createSleep(engine, { weights, exit });
  let asked = 0;
  /** Which of the processes behind the URL answers. */
  const turn = (): number => asked++ % settings.front_ends;
  const endpoints = {
    '/pause': {
      POST: async (exchange: Exchange): Promise<void> => {
        await engine.pause(readMode(exchange));
        sendJson(exchange, { status: 200, body: { status: 'paused' } });
      },
    },
    '/resume': {
      POST: (exchange: Exchange): void => {
        if (weights.isTransferring() && engine.stats().running > 0) exit();
        sleep.resumes();
        engine.resume();
        sendJson(exchange, { status: 200, body: { status: 'resumed' } });
      },
    },
    '/is_paused': {
      GET: (exchange: Exchange): void => {
        sendJson(exchange, { status: 200, body: { is_paused: engine.isPaused() } });
      },
    },
    '/weight_info': {
      GET: (exchange: Exchange): void => {
        sendJson(exchange, { status: 200, body: { weight_version: weights.label(turn()) } });
      },
    },
    ...sleep.endpoints,
    '/reset_prefix_cache': {
      POST: (exchange: Exchange): void => {
        sendJson(exchange, { status: 200, body: { success: true } });
      },
    },
    ...createLoad(weights, sleep.takesWeights),
    /** Only the label, without any weights. */
    '/update_weight_version': {
      POST: async (exchange: Exchange): Promise<void> => {
        const new_version = await readVersion(exchange);
        weights.setLabel(new_version, turn());
        sendJson(exchange, { status: 200, body: { success: true, new_version } });
      },
    },
    ...createTransferEndpoints(weights, {
      settings,
      hang: hung.hang,
      takesWeights: sleep.takesWeights,
    }),
  };
  return hung.waitingFor(endpoints);
}

/** From files, or from S3. */
function createLoad(weights: WeightStore, takesWeights: () => void) {
  return {
    '/collective_rpc': {
      POST: async (exchange: Exchange, fault: FaultSpec | null): Promise<void> => {
        const { kwargs } = await readBody(exchange, ReloadWeights);
        takesWeights();
        try {
          const read = await readWeights(kwargs.weights_path);
          if (fault?.fault !== 'load_nothing')
            weights.load(read, { half: fault?.fault === 'load_half' });
        } catch (error) {
          throw workerFailed(describeError(error));
        }
        if (fault?.fault === 'load_half' && fault.says === 'failure')
          throw workerFailed('CUDA error: an illegal memory access was encountered');
        sendJson(exchange, { status: 200, body: { results: [null] } });
      },
    },
  };
}

interface DevParts {
  weights: WeightStore;
  settings: Pick<SimulatorSettings, 'world_size' | 'front_ends'>;
  cleared: (fault: FaultSpec) => Promise<void>;
  exit: () => void;
}

const ReloadWeights = z.looseObject({
  method: z.literal('reload_weights'),
  kwargs: z.looseObject({ weights_path: z.string() }),
});

const NewVersion = z.looseObject({ new_version: z.string() });

async function readVersion(exchange: Exchange): Promise<string> {
  return (await readBody(exchange, NewVersion)).new_version;
}
