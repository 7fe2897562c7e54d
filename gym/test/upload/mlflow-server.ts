import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';

interface Entity {
  key: string;
  value: string;
}

/** What MLflow refuses (`mlflow.utils.validation`): characters, and names that are no plain relative path. */
const isName = (name: string): boolean =>
  name.length <= 250 &&
  /^[/\p{L}\p{N}_.\- :]+$/u.test(name) &&
  name.split('/').every((part) => part !== '' && !/^\.+$/.test(part)) &&
  !name.startsWith('..');

export interface MlflowScript {
  /** Experiments that are there. */
  experiments?: Record<string, string>;
  /** Another client creates the experiment first. */
  race?: boolean;
  token?: string;
  artifact_uri?: string;
  /** The status for paths that contain the text. */
  failing?: Record<string, number>;
}

/** A tracking server with the calls that an exporter makes, and MLflow's limits. */
export async function startMlflow(t: TestContext, script: MlflowScript = {}) {
  const experiments = new Map(Object.entries(script.experiments ?? {}));
  const runs: { run_id: string; status: string; experiment_id: string; run_name: string }[] = [];
  const metrics: { key: string; value: number }[] = [];
  const [params, tags]: [Entity[], Entity[]] = [[], []];
  const files = new Map<string, string>();
  const sizes: number[] = [];
  const calls: string[] = [];

  const found = (id: string) => ({ experiment: { experiment_id: id } });
  const logBatch = (body: { metrics?: typeof metrics; params?: Entity[]; tags?: Entity[] }) => {
    const all = [...(body.metrics ?? []), ...(body.params ?? []), ...(body.tags ?? [])];
    const most = body.metrics === undefined ? 100 : 1000;
    if (all.length > most || all.some(({ key }) => !isName(key))) return 400;
    sizes.push(all.length);
    metrics.push(...(body.metrics ?? []));
    params.push(...(body.params ?? []));
    tags.push(...(body.tags ?? []));
    return {};
  };
  const answer = (request: string, { url, body }: { url: URL; body: string }): object | number => {
    const json = (): Record<string, string> => JSON.parse(body) as Record<string, string>;
    const name = url.searchParams.get('experiment_name') ?? '';
    switch (request) {
      case 'GET mlflow/experiments/get-by-name': {
        const id = experiments.get(name);
        return id === undefined ? 404 : found(id);
      }
      case 'POST mlflow/experiments/create': {
        experiments.set(json()['name'] ?? '', '7');
        return script.race === true ? 400 : { experiment_id: '7' };
      }
      case 'POST mlflow/runs/create': {
        const { experiment_id = '', run_name = '' } = json();
        runs.push({ run_id: 'r1', status: 'RUNNING', experiment_id, run_name });
        const artifact_uri = script.artifact_uri ?? 'mlflow-artifacts:/7/r1/artifacts';
        return { run: { info: { run_id: 'r1', artifact_uri } } };
      }
      case 'POST mlflow/runs/log-batch':
        return logBatch(JSON.parse(body) as Parameters<typeof logBatch>[0]);
      case 'POST mlflow/runs/set-tag': {
        const { key = '', value = '' } = json();
        tags.push({ key, value });
        return {};
      }
      case 'POST mlflow/runs/update': {
        const run = runs.at(-1);
        if (run !== undefined) run.status = json()['status'] ?? '';
        return {};
      }
      default: {
        const [, file] =
          /^PUT mlflow-artifacts\/artifacts\/7\/r1\/artifacts\/(.+)$/.exec(request) ?? [];
        if (file === undefined) return 501;
        files.set(file, body);
        return {};
      }
    }
  };
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const url = new URL(request.url ?? '', 'http://server');
      const name = `${request.method ?? ''} ${url.pathname.replace('/api/2.0/', '')}`;
      calls.push(name);
      const isKnown =
        script.token === undefined || request.headers.authorization === `Bearer ${script.token}`;
      const failing = Object.entries(script.failing ?? {}).find(([part]) =>
        name.includes(part),
      )?.[1];
      const answered = isKnown ? (failing ?? answer(name, { url, body })) : 401;
      const status = typeof answered === 'number' ? answered : 200;
      const said = typeof answered === 'number' ? { error_code: String(answered) } : answered;
      response.writeHead(status).end(JSON.stringify(said));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, runs, metrics, params, tags, files, sizes, calls };
}
