import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { WorkerConfig } from '../../test/harness/worker-process.js';
import type { AgentsRequest } from './workload.js';

/** Agents of others, where they are installed. They mend the functions of examples/agent. */

type Environments = NonNullable<WorkerConfig['environments']>;

export interface RealAgent {
  name: 'mini' | 'opencode';
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
const MINI = ['--model=policy', '--model-class=litellm', '--task={prompt}', '--yolo', '--exit-immediately', '-cmini', '-cagent.cost_limit=0', '-cmodel.cost_tracking=ignore_errors', '-cmodel.model_kwargs.custom_llm_provider=openai', '-cmodel.model_kwargs.api_base={base_url}', '-cmodel.model_kwargs.api_key={key}']; // prettier-ignore
const OPENCODE = { provider: { gw: { npm: '@ai-sdk/openai-compatible', name: 'gw', options: { baseURL: '{env:OPENAI_BASE_URL}', apiKey: '{env:OPENAI_API_KEY}' }, models: { policy: { name: 'policy', limit: { context: 16_000, output: 1024 } } } } }, model: 'gw/policy', small_model: 'gw/policy', permission: 'allow' }; // prettier-ignore

/** Those that are there. `say` names the others. */
export async function realAgents(
  programs: Programs,
  { folder, say }: { folder: string; say: (line: string) => void },
): Promise<RealAgent[]> {
  const agents: RealAgent[] = [];
  const mini = found(programs.mini, { what: 'mini-swe-agent (--mini)', say });
  if (mini !== null) {
    const env = { MSWEA_CONFIGURED: 'true', MSWEA_SILENT_STARTUP: 'true' };
    agents.push(await agentOf('mini', { command: [mini, ...MINI], env, functions: 4, repeats: 3 })); // prettier-ignore
  }
  const opencode = found(programs.opencode, { what: 'OpenCode (--opencode)', say });
  if (opencode !== null) {
    const config = path.join(folder, 'opencode.json');
    await writeFile(config, JSON.stringify(OPENCODE));
    const env = { OPENCODE_CONFIG: config, OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1' }; // prettier-ignore
    agents.push(await agentOf('opencode', { command: [opencode, 'run', '--format', 'json', '{prompt}'], env, functions: 3, repeats: 2 })); // prettier-ignore
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
  command: [string, ...string[]];
  env: Record<string, string>;
  functions: number;
  repeats: number;
}

async function agentOf(
  name: RealAgent['name'],
  { command, env, functions, repeats }: Given,
): Promise<RealAgent> {
  // prettier-ignore
  const text = await readFile(path.join(EXAMPLE, 'samples.jsonl'), 'utf8');
  const samples = text.split('\n').slice(0, functions).map((line) => JSON.parse(describedCalls(line)) as object); // prettier-ignore
  return {
    name,
    environments: {
      [name]: {
        kind: 'agent',
        run: {
          command,
          setup: ['python3', FUNCTION, 'setup'],
          submit: ['python3', FUNCTION, 'submit'],
          env,
          sandbox: 'none',
        },
        verify: 'passed',
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
      max_seq_len: 16_384,
      max_rollout_turns: 100,
      rollout_timeout: '1h',
      attempts: { agent: 1 },
    },
  };
}

/** OpenCode's tool wants a description; that of mini-swe-agent does not mind. */
const describedCalls = (line: string): string =>
  line.replaceAll('\\"arguments\\": {\\"command\\"', '\\"arguments\\": {\\"description\\": \\"Runs\\", \\"command\\"'); // prettier-ignore
