import { parse } from 'yaml';
import { z } from 'zod';
import { describeError } from '../../model/faults.js';
import { createHttpCall } from '../http-call.js';
import { rejected } from '../rejections.js';

const TIMEOUT_MS = 30_000;

/** NeMo Gym's head server: it knows every server's host and port. */
export interface HeadServer {
  /** `http://<host>:<port>` of the server under this top-level name. Throws `EnvironmentRejected` where there is none. */
  serverUrl(name: string, signal: AbortSignal): Promise<string>;
  /** What the deployment is configured with, asked for once. */
  globalConfig(signal: AbortSignal): Promise<Record<string, unknown>>;
  /** Asks again next time: servers that were started anew may have other ports. */
  forget(): void;
  close(): Promise<void>;
}

const Server = z.object({ host: z.string().min(1), port: z.coerce.number().int().positive() });
/** `<kind of server>.<implementation>`, of which each has one. */
const Instance = z.record(z.string(), z.record(z.string(), z.unknown()));

export function createHeadServer({ url }: { url: string }): HeadServer {
  const at = url.replace(/\/+$/, '');
  const { send, close } = createHttpCall({ url: at, timeout_ms: TIMEOUT_MS });
  let known: Record<string, unknown> | null = null;

  const globalConfig: HeadServer['globalConfig'] = async (signal) => {
    if (known !== null) return known;
    const reply = await send({ method: 'GET', path: '/global_config_dict_yaml', signal });
    known = configIn(reply.text, `${reply.request} answered`);
    return known;
  };
  return {
    globalConfig,
    serverUrl: async (name, signal) => {
      const config = await globalConfig(signal);
      const server = serverIn(config[name]);
      if (server !== null) return `http://${server.host}:${server.port}`;
      const others = Object.keys(config).filter((other) => serverIn(config[other]) !== null);
      const what = `expected a server with host and port; there are ${others.join(', ') || 'none'}`;
      throw rejected({ subject: `head server ${at}`, at, problems: [{ where: name, what }] });
    },
    forget: () => {
      known = null;
    },
    close,
  };
}

/** A JSON string that holds YAML. */
function configIn(text: string, subject: string): Record<string, unknown> {
  try {
    const yaml = z.string().parse(JSON.parse(text));
    return z.record(z.string(), z.unknown()).parse(parse(yaml));
  } catch (error) {
    const what = `expected a JSON string that holds a YAML mapping: ${describeError(error)}`;
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
