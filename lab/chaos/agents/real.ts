import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import type { WorkerConfig } from '../../bed/worker.js';
import type { AgentsRequest } from './workload.js';

/** Agents of others, where they are installed. They mend the functions of examples/agent. */

type Environments = NonNullable<WorkerConfig['environments']>;

export interface RealAgent {
  name: 'mini' | 'opencode';
  /** The folder of its program. */
  root: string;
  /** Of processes that name it, and are not its own: those that were there before. */
  others: ReadonlySet<string>;
  environments: Environments;
  request: AgentsRequest;
}

/** Where the programs are; null: they are not asked for. */
export interface Programs {
  mini: string | null;
  opencode: string | null;
}

const EXAMPLE = path.join(PROJECT_ROOT, 'examples', 'agent');
const FUNCTION = path.join(EXAMPLE, 'function.py');
const SETUP =
  'import json, sys; task = json.load(sys.stdin)["metadata"]; open(task["function"] + ".py", "w").write(task["source"])';
const MINI = [
  '--model=policy',
  '--model-class=litellm',
  '--task={prompt}',
  '--yolo',
  '--exit-immediately',
  '-cmini',
  '-cagent.cost_limit=0',
  '-cmodel.cost_tracking=ignore_errors',
  '-cmodel.model_kwargs.custom_llm_provider=openai',
  '-cmodel.model_kwargs.api_base={base_url}',
  '-cmodel.model_kwargs.api_key={key}',
];
/** OpenCode's instructions and tools are longer than the rest of a conversation. */
const CONTEXT = 49_152;
const OPENCODE = {
  provider: {
    gw: {
      npm: '@ai-sdk/openai-compatible',
      name: 'gw',
      options: { baseURL: '{env:OPENAI_BASE_URL}', apiKey: '{env:OPENAI_API_KEY}' },
      models: { policy: { name: 'policy', limit: { context: CONTEXT - 2048, output: 1024 } } },
    },
  },
  model: 'gw/policy',
  small_model: 'gw/policy',
  permission: 'allow',
};
const SETTINGS = '/tmp/opencode.json';

/** Those that are there. `say` names the others. */
export async function realAgents(
  programs: Programs,
  { say }: { say: (line: string) => void },
): Promise<RealAgent[]> {
  const agents: RealAgent[] = [];
  const mini = found(programs.mini, { what: 'mini-swe-agent (--mini)', say });
  if (mini !== null) {
    const env = { MSWEA_CONFIGURED: 'true', MSWEA_SILENT_STARTUP: 'true' };
    agents.push(
      await agentOf('mini', {
        program: mini,
        command: (own) => [own, ...MINI],
        env,
        functions: 4,
        repeats: 3,
      }),
    );
  }
  const opencode = found(programs.opencode, { what: 'OpenCode (--opencode)', say });
  if (opencode !== null) {
    const env = {
      OPENCODE_CONFIG: SETTINGS,
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
    };
    // It puts an argument with blanks into quotes.
    const command: Given['command'] = (own) => [
      'sh',
      '-c',
      `printf %s "$1" > ${SETTINGS}; printf %s "$2" | "$0" run --format json`,
      own,
      JSON.stringify(OPENCODE),
      '{prompt}',
    ];
    agents.push(
      await agentOf('opencode', {
        program: opencode,
        command,
        env,
        functions: 3,
        repeats: 2,
      }),
    );
  }
  return agents;
}

function found(
  program: string | null,
  { what, say }: { what: string; say: (line: string) => void },
): string | null {
  if (program !== null && existsSync(program)) return program;
  say(`skipped: ${what}: ${program === null ? 'no program is named' : `${program} is missing`}`);
  return null;
}

interface Given {
  program: string;
  command: (program: string) => [string, ...string[]];
  env: Record<string, string>;
  functions: number;
  repeats: number;
}

async function agentOf(
  name: RealAgent['name'],
  { program, command, env, functions, repeats }: Given,
): Promise<RealAgent> {
  const text = await readFile(path.join(EXAMPLE, 'samples.jsonl'), 'utf8');
  const samples = text
    .split('\n')
    .slice(0, functions)
    .map((line) => JSON.parse(describedCalls(line)) as object);
  // A virtual environment, or a package: what it runs is below it.
  const root = path.dirname(path.dirname(name === 'mini' ? program : await realpath(program)));
  return {
    name,
    root,
    others: new Set(naming(root)),
    environments: {
      [name]: {
        kind: 'agent',
        run: {
          command: command(path.join(root, 'bin', path.basename(program))),
          setup: ['python3', '-c', SETUP],
          submit: ['python3', FUNCTION, 'submit', '{folder}'],
          env,
          // Each life has the same path: what OpenCode says of its folder does not differ.
          sandbox: 'programs',
          mounts: [root],
          submit_mounts: [FUNCTION],
        },
        verify: 'passed',
        task_queue: name,
        max_concurrent: 6,
      },
      passed: { kind: 'module', path: path.join(EXAMPLE, 'verify.mjs') },
    },
    request: {
      samples: samples.map((sample) => ({
        ...sample,
        task_name: name,
      })),
      num_repeats: repeats,
      generation: { max_new_tokens: 1024, seed: 11 },
      max_seq_len: CONTEXT,
      max_rollout_turns: 100,
      rollout_timeout: '1h',
      attempts: { agent: 1 },
    },
  };
}

/** Of this host, by what runs there or was given to it. */
export const processesOf = ({ root, others }: Pick<RealAgent, 'root' | 'others'>): string[] =>
  naming(root).filter((pid) => !others.has(pid));

function naming(root: string): string[] {
  const said = (read: () => string): string => {
    try {
      return read();
    } catch {
      return '';
    }
  };
  const what = (pid: string): string =>
    said(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8')) +
    said(() => readlinkSync(`/proc/${pid}/exe`));
  return readdirSync('/proc').filter(
    (name) => /^\d+$/.test(name) && what(name).includes(`${root}/`),
  );
}

/** OpenCode's tool wants a description; that of mini-swe-agent does not mind. */
const describedCalls = (line: string): string =>
  line.replaceAll(
    '\\"arguments\\": {\\"command\\"',
    '\\"arguments\\": {\\"description\\": \\"Runs\\", \\"command\\"',
  );
