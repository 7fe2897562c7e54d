import { setTimeout as sleep } from 'node:timers/promises';
import { createCompletions } from '../../completions/completions.js';
import { decode } from '../../policy/tokenizer.js';
import { readBody } from '../body-reader.js';
import type { DialectEndpoints, EndpointParts, Endpoints } from '../endpoint.js';
import { createHang } from '../hang.js';
import { sendJson, sendText, type Exchange } from '../http-exchange.js';
import { DetokenizeBody, tokenize } from '../tokenize.js';
import { createAdapterEndpoints } from './adapters.js';
import { createFrontEnd, type FrontEnd } from './front-end.js';
import { createGenerate, RESERVED } from './generate.js';
import { createMemoryEndpoints } from './memory.js';
import { createWeightsEndpoints } from './weights-endpoints.js';

const VERSION = '0.5.23+simulator';

/** SGLang's endpoints. Those of its scheduler answer nothing while that waits inside a transfer. */
export function createSglangEndpoints(parts: EndpointParts): DialectEndpoints {
  const { settings, engine, weights, exit } = parts;
  const front = createFrontEnd(engine, parts);
  const hung = createHang(parts.cleared);
  const memory = createMemoryEndpoints({
    ...{ engine, weights, front, exit },
    keeps_weights: settings.weights_backup,
  });
  const generate = createCompletions(parts, createGenerate({ settings, weights, front, exit }));
  const health = createHealth(front.isPaused);
  const scheduled = {
    '/server_info': {
      GET: (exchange: Exchange) => {
        sendJson(exchange, { status: 200, body: serverInfo(parts) });
      },
    },
    ...memory.endpoints,
    ...createAdapterEndpoints({ weights, front, max_loras: settings.max_loras }),
    ...createWeightsEndpoints({
      ...{ engine, weights, front, hang: hung.hang },
      takesWeights: memory.takesWeights,
    }),
  };
  const plain: Endpoints = {
    ...createModelEndpoints(parts, front),
    '/model_info': {
      GET: (exchange) => {
        const name = front.name();
        const body = {
          model_path: name,
          served_model_name: name,
          tokenizer_path: settings.model,
          is_generation: true,
          weight_version: front.label(),
          load_format: 'auto',
        };
        sendJson(exchange, { status: 200, body });
      },
    },
    '/metrics': {
      GET: (exchange) => {
        const text = `sglang:startup_time_seconds{phase="tokenizer_e2e"} ${parts.started_s}\n`;
        sendText(exchange, { status: 200, type: 'text/plain; charset=utf-8', text });
      },
    },
    '/v1/loads': {
      GET: (exchange) => {
        const { running, waiting } = engine.stats();
        const loads = [{ dp_rank: 0, num_running_reqs: running, num_waiting_reqs: waiting }];
        sendJson(exchange, { status: 200, body: { version: VERSION, loads } });
      },
    },
    ...health,
    ...hung.waitingFor(scheduled),
  };
  const sampling: Endpoints = {
    '/generate': {
      POST: async (exchange, fault) => {
        await front.open();
        await generate(exchange, fault);
      },
    },
  };
  return { sampling, plain };
}

/** Its tokenizer, and what it serves: under the path of the last update. */
const createModelEndpoints = (
  { settings, weights }: EndpointParts,
  front: FrontEnd,
): Endpoints => ({
  '/tokenize': { POST: (exchange) => tokenize(exchange, settings) },
  '/detokenize': {
    POST: async (exchange) => {
      const { tokens, skip_special_tokens } = await readBody(exchange, DetokenizeBody);
      sendJson(exchange, {
        status: 200,
        body: { text: decode(tokens, { skip_special_tokens }) },
      });
    },
  },
  '/v1/models': {
    GET: (exchange) => {
      const card = {
        object: 'model',
        created: Math.floor(Date.now() / 1000),
        owned_by: 'sglang',
      };
      const base = front.name();
      const { max_model_len } = settings;
      const data = [
        { id: base, ...card, root: base, parent: null, max_model_len },
        ...weights
          .adapters()
          .map((id) => ({ id, ...card, root: id, parent: base, max_model_len: null })),
      ];
      sendJson(exchange, { status: 200, body: { object: 'list', data } });
    },
  },
});

/** It generates a token, and one that waited in vain is not ready before the next. */
function createHealth(isPaused: () => boolean): Endpoints {
  let is_well = true;
  const say = (exchange: Exchange, isGood: boolean): void => {
    sendText(exchange, { status: isGood ? 200 : 503, type: null, text: '' });
  };
  return {
    '/health': {
      GET: async (exchange) => {
        for (let second = 1; second <= HEALTH_S; second++) {
          await sleep(1000, undefined, { ref: false });
          is_well = !isPaused();
          if (is_well) break;
        }
        say(exchange, is_well);
      },
    },
    '/ready': {
      GET: (exchange) => {
        say(exchange, is_well && !isPaused());
      },
    },
  };
}
const HEALTH_S = 20;

/** How it was started. */
const serverInfo = ({
  settings,
  started_s,
}: Pick<EndpointParts, 'settings' | 'started_s'>): object => ({
  served_model_name: settings.model,
  model_path: settings.model,
  version: VERSION,
  max_req_input_len: settings.max_model_len - RESERVED,
  incremental_streaming_output: settings.incremental_streaming,
  enable_deterministic_inference: false,
  grammar_backend: 'none',
  sampling_mask_max_tokens: 0,
  kv_cache_dtype: 'auto',
  disable_overlap_schedule: false,
  enable_lora: settings.max_loras !== null,
  max_loaded_loras: settings.max_loras,
  enable_memory_saver: true,
  enable_weights_cpu_backup: settings.weights_backup,
  startup_time: { tokenizer_e2e: started_s },
  internal_states: [{ world_size: settings.world_size }],
});
