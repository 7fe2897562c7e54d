import { toMs } from '../model/workflow-safe/durations.js';
import { readSecret } from '../platform/secrets.js';
import { createCalculator } from './calculator/environment.js';
import { createCodeJaccard } from './code-jaccard/environment.js';
import { createCode } from './code/environment.js';
import type { EnvironmentContext } from './environment-context.js';
import type { Environment, ExactEnvironment } from './environment.js';
import { createGymAgent } from './gym-agent/environment.js';
import { createGymnasium } from './gymnasium/environment.js';
import { createHttpEnvironment } from './http/environment.js';
import type { Token } from './http/token.js';
import { createMathEnvironment } from './math/environment.js';
import { verifierOf } from './math/verifiers.js';
import { createModuleEnvironment } from './module/user-module.js';
import { withPlainMetadata } from './plain-metadata.js';
import { createRetrieverEnvironment } from './retriever/environment.js';
import { createRewardModel } from './reward-model/environment.js';
import { isInProcess, type EnvironmentSettings } from './settings.js';
import { bytesOf } from '../platform/size.js';
import { createSlidingPuzzle } from './sliding-puzzle/environment.js';
import { createVlmEnvironment } from './vlm/environment.js';

/** Creates an environment of temporal.yaml. Throws an error that names it and the problem of its settings. */
export async function createEnvironment(
  settings: EnvironmentSettings,
  context: EnvironmentContext,
): Promise<ExactEnvironment> {
  switch (settings.kind) {
    case 'http':
      return createHttpEnvironment({
        url: settings.url,
        token: tokenOf(settings, context),
        timeout_ms: toMs(settings.timeout),
        max_answer_bytes: bytesOf(settings.max_answer),
        answers: context.answers,
      });
    case 'gym_agent':
      return createGymAgent(settings, context);
    case 'gymnasium':
      return createGymnasium(settings, { ...context, token: tokenOf(settings, context) });
    default:
      return withPlainMetadata(await createPlain(settings, context), context.name);
  }
}

/** Those whose code is JavaScript. */
async function createPlain(
  settings: Exclude<EnvironmentSettings, { kind: 'http' | 'gym_agent' | 'gymnasium' }>,
  context: EnvironmentContext,
): Promise<Environment> {
  switch (settings.kind) {
    case 'sliding_puzzle':
      return createSlidingPuzzle();
    case 'math':
      return {
        ...createMathEnvironment({
          ...verifierOf(settings.verifier, context.grader),
          in_process: isInProcess(settings),
          return_extracted_answer: settings.return_extracted_answer,
        }),
        ...graderHealth(settings, context),
      };
    case 'code':
      return createCode(settings, { ...context, token: tokenOf(settings, context) });
    case 'vlm':
      return {
        ...createVlmEnvironment({
          reward_functions: settings.reward_functions,
          grader: context.grader,
        }),
        ...graderHealth(settings, context),
      };
    case 'retriever':
      return createRetrieverEnvironment(await context.retriever(context.name));
    case 'code_jaccard':
      return createCodeJaccard();
    case 'reward_model':
      return createRewardModel(settings, {
        token: secretOf('api_key_env', { variable: settings.api_key_env, context }),
        answers: context.answers,
      });
    case 'calculator':
      return createCalculator();
    case 'module':
      return await createModuleEnvironment(settings, context);
  }
}

/** An environment that needs the grader is healthy if the grader is. The worker closes the grader. */
const graderHealth = (
  settings: EnvironmentSettings,
  { grader }: EnvironmentContext,
): Pick<Environment, 'health'> =>
  isInProcess(settings) ? {} : { health: (signal) => grader.health(signal) };

const tokenOf = ({ token_env }: { token_env: string | null }, context: SecretsOf): Token | null =>
  secretOf('token_env', { variable: token_env, context });

type SecretsOf = Pick<EnvironmentContext, 'name' | 'env'>;

/** Settings name secrets and never contain them, so none reaches history, journal or log. */
function secretOf(
  setting: string,
  { variable, context: { name, env } }: { variable: string | null; context: SecretsOf },
): Token | null {
  if (variable === null) return null;
  return {
    variable,
    value: readSecret(variable, { env, setting: `environments.${name}.${setting}` }),
  };
}
