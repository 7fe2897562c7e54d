import type { z } from 'zod';
import { problemsOf } from '../../src/model/problems.js';
import { parseJson } from './body-reader.js';
import type { Engine } from '../engine.js';
import type { Faults } from '../faults.js';
import { readText, Refusal, sendJson, type Exchange } from './http-exchange.js';
import type { RequestLog } from '../request-log.js';
import { FaultSpec, SettingsChange, type SimulatorSettings } from '../settings.js';

export interface ControlParts {
  settings: Readonly<SimulatorSettings>;
  engine: Engine;
  change: (change: SettingsChange) => void;
  faults: Faults;
  log: RequestLog;
}

type Handler = (exchange: Exchange) => Promise<unknown>;

/**
 * The simulator's own endpoints, below `/simulator/`; they answer 200 with JSON. Methods by path:
 * settings GET, PUT; faults GET, POST, DELETE; faults/<id> DELETE; requests GET, DELETE; counts GET; engine GET.
 */
export function createControl({ settings, engine, change, faults, log }: ControlParts) {
  const endpoints: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
    '/simulator/settings': {
      GET: () => Promise.resolve(settings),
      PUT: async (exchange) => {
        change(await readInput(exchange, SettingsChange));
        return settings;
      },
    },
    '/simulator/faults': {
      GET: () => Promise.resolve({ faults: faults.list() }),
      POST: async (exchange) => faults.add(await readInput(exchange, FaultSpec)),
      DELETE: () => Promise.resolve({ cleared: faults.clear() }),
    },
    '/simulator/requests': {
      GET: () => Promise.resolve({ requests: log.entries() }),
      DELETE: () => {
        log.reset();
        return Promise.resolve({});
      },
    },
    '/simulator/engine': {
      GET: () => Promise.resolve({ ...engine.stats(), is_paused: engine.isPaused() }),
    },
    '/simulator/counts': { GET: () => Promise.resolve({ rollouts: log.counts() }) },
  };
  const oneFault: Readonly<Record<string, Handler>> = {
    DELETE: ({ path }) => {
      const id = path.slice(path.lastIndexOf('/') + 1);
      if (faults.clear(id) === 0) throw refusal(404, `there is no fault ${id}`);
      return Promise.resolve({ cleared: 1 });
    },
  };
  return async (exchange: Exchange): Promise<void> => {
    const { path, request } = exchange;
    const methods = path.startsWith('/simulator/faults/') ? oneFault : endpoints[path];
    if (methods === undefined) throw refusal(404, `the simulator has no ${path}`);
    const handler = methods[request.method ?? ''];
    if (handler === undefined) {
      throw refusal(
        405,
        `${path} takes ${Object.keys(methods).join(', ')}, not ${request.method ?? '?'}`,
      );
    }
    sendJson(exchange, { status: 200, body: await handler(exchange) });
  };
}

function refusal(status: number, message: string): Refusal {
  return new Refusal({ status, body: { error: { message } } });
}

async function readInput<Schema extends z.ZodType>(
  exchange: Exchange,
  schema: Schema,
): Promise<z.output<Schema>> {
  const input = parseJson(await readText(exchange));
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const lines = problemsOf(parsed.error, input).map(({ where, what }) => `${where}: ${what}`);
  throw refusal(400, lines.join('\n'));
}
