import { z } from 'zod';
import { describeError } from '../../platform/errors.js';
import { parseForeignYaml } from '../../platform/yaml.js';
import { recordOf } from '../../model/untrusted.js';
import { createHttpCall } from '../http/call.js';
import { rejected } from '../rejections.js';
import { createKeptAnswer } from './kept-answer.js';
import { shapeProblem } from '../../platform/json/depth.js';

const TIMEOUT_MS = 30_000;
/** Used if there is an earlier answer to fall back on. */
const AGAIN_TIMEOUT_MS = 5000;
/** Restarted servers may have other ports, and another server may use an old one. */
const KEPT_MS = 10_000;

/** Size limit of its answer: that of a hundred servers has a tenth. */
const MAX_CONFIG_BYTES = 2 ** 20;

const Server = z.object({ host: z.string().min(1), port: z.coerce.number().int().positive() });
/** `<kind of server>.<implementation>`, exactly one of each. */
const Instance = z.record(z.string(), z.record(z.string(), z.unknown()));

type Config = Record<string, unknown>;

/** `now`: monotonic, in milliseconds. */
export function createHeadServer(at: string, now = () => performance.now()) {
  const { send, close } = createHttpCall({
    url: at,
    timeout_ms: TIMEOUT_MS,
    max_answer_bytes: MAX_CONFIG_BYTES,
    keep_alive_ms: 0,
  });
  /** The last answer, with the time of its request, which stays in use while there is no newer one. */
  let last: { config: Config; at: number } | null = null;
  /** Why the latest request had no answer. */
  let failure: Error | null = null;
  const ask = async (): Promise<Config> => {
    const asked_at = now();
    const timeout_ms = last === null ? TIMEOUT_MS : AGAIN_TIMEOUT_MS;
    // The request is shared: no caller's signal ends it.
    const { signal } = new AbortController();
    const path = '/global_config_dict_yaml';
    try {
      const reply = await send({ method: 'GET', path, timeout_ms, signal });
      const config = await configIn(reply.text, `${reply.request} answered`);
      last = { config, at: asked_at };
      failure = null;
      return config;
    } catch (error) {
      if (last === null) throw error;
      failure = error instanceof Error ? error : new Error(String(error));
      return last.config;
    }
  };
  const { latest, forget } = createKeptAnswer(ask, { kept_ms: KEPT_MS, now });
  return {
    /**
     * The deployment's configuration, at most ten seconds old; if the head server has been silent since, its last
     * answer. Concurrent callers share the request.
     */
    globalConfig: latest,
    /** `http://<host>:<port>` of the server under this top-level name. Throws `EnvironmentRejected` if there is none. */
    serverUrl: async (name: string, signal: AbortSignal): Promise<string> => {
      const before = last?.config;
      let config = await latest(signal);
      if (config === before && serverIn(config[name]) === null) {
        // It may have been started since.
        forget();
        config = await latest(signal);
      }
      const server = serverIn(config[name]);
      if (server !== null) return `http://${server.host}:${server.port}`;
      if (failure !== null) throw failure;
      const others = Object.keys(config).filter((other) => serverIn(config[other]) !== null);
      const what = `expected a server with host and port; there are ${others.join(', ') || 'none'}`;
      throw rejected({ subject: `head server ${at}`, at, problems: [{ where: name, what }] });
    },
    forget,
    /** For messages: the age of its answer and why there is no newer one; null: the last request was answered. */
    silence: (): string | null => {
      if (failure === null || last === null) return null;
      const age_s = Math.round((now() - last.at) / 1000);
      return `the head server named its address ${age_s} s ago, and does not answer now: ${describeError(failure)}`;
    },
    close,
  };
}

/** A JSON string that contains YAML, including the keys of other services: messages quote none of it. */
async function configIn(text: string, subject: string): Promise<Config> {
  try {
    if (shapeProblem(text) !== null) throw new TypeError('its shape');
    const yaml = z.string().parse(JSON.parse(text));
    return recordOf(z.unknown()).parse(await parseForeignYaml(yaml));
  } catch (error) {
    const what = `expected a JSON string that holds a YAML mapping, got another text (${error instanceof Error ? error.name : typeof error})`;
    throw rejected({ subject, problems: [{ where: '(body)', what }] });
  }
}

/** As upstream reads it: the first of the first. */
function serverIn(instance: unknown): z.infer<typeof Server> | null {
  const kinds = Instance.safeParse(instance);
  if (!kinds.success) return null;
  const [implementations = {}] = Object.values(kinds.data);
  return Server.safeParse(Object.values(implementations)[0]).data ?? null;
}
