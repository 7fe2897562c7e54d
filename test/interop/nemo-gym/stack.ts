import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { firstFreePort } from '../../../dev/free-port.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';

/** Two of NeMo Gym's data sets with their servers: one answer, and a tool call before it. */
const DATA_SETS = [
  'resources_servers/mcqa/configs/mcqa.yaml',
  'resources_servers/example_multi_step/configs/example_multi_step.yaml',
];
export const AGENTS = ['mcqa_simple_agent', 'example_multi_step_simple_agent'] as const;
const VLLM = 'responses_api_models/vllm_model/configs/vllm_model_for_training.yaml';
const GATEWAY = 'responses_api_models/gateway/configs/gateway.yaml';
/** As long as a busy machine needs. */
const START_MS = 1_200_000;

interface Instance {
  config_path: string;
  pid: number;
  port: number;
}

/** A real NeMo Gym's servers before a stub model. */
export interface GymStack {
  head: { host: string; port: number };
  captures: string;
  /** Starts one of NeMo Gym's commands. */
  gym: (command: string, how: { args: readonly string[]; cwd: string }) => GymCommand;
  /** A head server that says what the real one says, until an agent has moved: it is killed and comes back on another port. */
  movingHead: () => Promise<{ port: number; move: (agent: string) => Promise<void> }>;
}

export interface GymCommand {
  pid: number;
  ended: Promise<Ran>;
  /** With all that it started. */
  kill: () => Promise<Ran>;
}

export interface Ran {
  code: number | null;
  output: string;
}

/** What is called at the end of a test, or of a measurement. */
type Ending = Pick<TestContext, 'after'>;

interface GymOptions {
  /** Where `install.sh` put it. */
  dir: string;
  folder: string;
  delay_ms?: number;
  /** Ports of its head server and of a gateway, which is its model server in place of the stub. */
  gateway?: { head: number; port: number };
}

/** Everything ends with the test. */
export async function startGym(
  t: Ending,
  { dir, folder, delay_ms = 20, gateway }: GymOptions,
): Promise<GymStack> {
  const env = {
    ...process.env,
    PATH: `${dir}/venv/bin:${process.env['PATH'] ?? ''}`,
    RAY_AUTH_MODE: 'disabled',
    RAY_USAGE_STATS_ENABLED: '0',
    RAY_raylet_start_wait_time_s: '1200',
    NEMO_GYM_EXTRA_ROOTS: path.join(PROJECT_ROOT, 'examples', 'nemo-gym'),
  };
  const gymDir = path.join(dir, 'gym');
  const captures = path.join(folder, 'captures');
  const model = await startModel(t, delay_ms);
  const ray = await startRay(t, env);
  const head = { host: '127.0.0.1', port: gateway?.head ?? (await firstFreePort(0)) };
  const models =
    gateway === undefined
      ? [
          `+policy_base_url=http://127.0.0.1:${model}/v1`,
          '+policy_api_key=none',
          '+policy_model_name=stub',
        ]
      : [`++policy_model.responses_api_models.gateway.port=${gateway.port}`];
  const servers = started(t, {
    command: 'ng_run',
    args: [
      `+config_paths=[${[gateway === undefined ? VLLM : GATEWAY, ...DATA_SETS].join(',')}]`,
      ...models,
      '+skip_venv_if_present=true',
      '++observability_enabled=true',
      `+model_call_capture_dir=${captures}`,
      `+ray_head_node_address=127.0.0.1:${ray}`,
      `+head_server.host=${head.host}`,
      `+head_server.port=${head.port}`,
    ],
    env,
    cwd: gymDir,
  });
  await until(() => /All \d+ \/ \d+ servers ready/.test(servers.output()), servers);
  const url = `http://${head.host}:${head.port}`;
  return {
    head,
    captures,
    gym: (command, { args, cwd }) => {
      const { child, output } = started(t, { command, args, env, cwd });
      // Not `close`: what it started outside its group may hold its pipes.
      const ended = once(child, 'exit').then(([code]) => ({
        code: code as number | null,
        output: output(),
      }));
      const kill = (): Promise<Ran> => {
        signalGroup(child, 'SIGKILL');
        return ended;
      };
      return { pid: child.pid ?? 0, ended, kill };
    },
    movingHead: () => movingHead(t, { url, env, gymDir, supervisor: servers.child.pid ?? 0 }),
  };
}

interface Started {
  child: ChildProcess;
  output: () => string;
}

/** In a group of its own: servers start others. */
function started(
  t: Ending,
  {
    command,
    args,
    env,
    cwd,
  }: { command: string; args: readonly string[]; env: NodeJS.ProcessEnv; cwd: string },
): Started {
  const child = spawn(command, args, {
    env,
    cwd,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  t.after(() => {
    signalGroup(child, 'SIGTERM');
    signalGroup(child, 'SIGKILL');
  });
  return { child, output: () => output };
}

function signalGroup({ pid }: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // It has ended.
  }
}

async function until(isDone: () => boolean, { child, output }: Started): Promise<void> {
  const end = performance.now() + START_MS;
  while (!isDone()) {
    if (child.exitCode !== null || performance.now() > end)
      throw new Error(`${child.spawnargs[0] ?? ''} did not start:\n${output().slice(-4000)}`);
    await sleep(500);
  }
}

async function startModel(t: Ending, delay_ms: number): Promise<number> {
  const file = path.join(PROJECT_ROOT, 'test', 'interop', 'nemo-gym', 'stub-model.mjs');
  const model = started(t, {
    command: process.execPath,
    args: [file],
    env: { ...process.env, DELAY_MS: String(delay_ms) },
    cwd: PROJECT_ROOT,
  });
  await until(() => model.output().includes('\n'), model);
  return (JSON.parse(model.output()) as { port: number }).port;
}

/** With ports that are said, Ray does not wait for its own agent to tell them: on a busy machine it gives up on that. */
async function startRay(t: Ending, env: NodeJS.ProcessEnv): Promise<number> {
  const ports: number[] = [];
  for (let i = 0; i < 5; i++) ports.push(await firstFreePort(0));
  const [head = 0, ...others] = ports;
  const names = [
    'dashboard-agent-grpc-port',
    'metrics-export-port',
    'dashboard-agent-listen-port',
    'runtime-env-agent-port',
  ];
  const given = names.flatMap((name, index) => [`--${name}`, String(others[index])]);
  const workers = ['--min-worker-port', '0', '--max-worker-port', '0'];
  const ray = started(t, {
    command: 'ray',
    args: [
      'start',
      '--head',
      '--port',
      String(head),
      ...given,
      ...workers,
      '--include-dashboard=false',
      '--num-cpus',
      '2',
      '--object-store-memory',
      '200000000',
      '--block',
    ],
    env,
    cwd: PROJECT_ROOT,
  });
  await until(() => ray.output().includes('Ray runtime started'), ray);
  return head;
}

async function movingHead(
  t: Ending,
  {
    url,
    env,
    gymDir,
    supervisor,
  }: { url: string; env: NodeJS.ProcessEnv; gymDir: string; supervisor: number },
): Promise<{ port: number; move: (agent: string) => Promise<void> }> {
  const [config, instances] = await Promise.all(
    ['global_config_dict_yaml', 'server_instances'].map(async (name) =>
      (await fetch(`${url}/${name}`)).json(),
    ),
  );
  let yaml = config as string;
  const server = createServer((_, response) => response.end(JSON.stringify(yaml)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const places = new Map(
    (instances as Instance[]).map((instance) => [instance.config_path, instance]),
  );
  const move = async (agent: string): Promise<void> => {
    const found = places.get(agent);
    if (found === undefined) throw new Error(`no server ${agent}`);
    const own = environmentOf(found.pid);
    const port = await firstFreePort(0);
    const moved = (text: string): string =>
      text.replaceAll(`port: ${found.port}\n`, `port: ${port}\n`);
    // `ng_run` looks each minute, and ends all servers when one is gone.
    process.kill(supervisor, 'SIGSTOP');
    process.kill(found.pid, 'SIGKILL');
    await sleep(3000);
    const again = {
      ...env,
      ...own,
      NEMO_GYM_CONFIG_DICT: moved(own['NEMO_GYM_CONFIG_DICT'] ?? ''),
    };
    const cwd = path.join(gymDir, 'responses_api_agents', 'simple_agent');
    const { child } = started(t, { command: 'python', args: ['app.py'], env: again, cwd });
    places.set(agent, { config_path: agent, pid: child.pid ?? 0, port });
    yaml = moved(yaml);
  };
  return { port: (server.address() as AddressInfo).port, move };
}

/** What the process was started with. */
const environmentOf = (pid: number): Record<string, string> =>
  Object.fromEntries(
    readFileSync(`/proc/${pid}/environ`, 'utf8')
      .split('\0')
      .flatMap((entry) => {
        const at = entry.indexOf('=');
        return at < 0 ? [] : [[entry.slice(0, at), entry.slice(at + 1)]];
      }),
  );
