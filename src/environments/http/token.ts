import { orNull, Word } from '../../model/field-kinds.js';
import { readSecret } from '../../platform/secrets.js';
import type { EnvironmentContext } from '../kind.js';

/** A setting of every kind behind HTTP whose server may ask who speaks. Settings name secrets and never contain them. */
export const TOKEN = {
  token_env: orNull(Word).describe(
    'the environment variable that holds the bearer token of requests',
  ),
};

export interface Token {
  variable: string;
  value: string;
}

export const authorizationOf = (token: Token | null): Record<string, string> =>
  token === null ? {} : { authorization: `Bearer ${token.value}` };

/** What to do about a probe that is answered with 401, for its message. */
export const tokenHint = (token: Token | null): string =>
  token === null
    ? 'token_env (api_key_env of a reward model) names the variable that holds its token'
    : `the token in ${token.variable} is not the one that it takes`;

type SecretsOf = Pick<EnvironmentContext, 'name' | 'env'>;

/** The token in the variable that a setting names; null: it names none. So no secret reaches history, journal or log. */
export function secretIn(
  variable: string | null,
  { setting, name, env }: SecretsOf & { setting: string },
): Token | null {
  if (variable === null) return null;
  return {
    variable,
    value: readSecret(variable, { env, setting: `environments.${name}.${setting}` }),
  };
}

export const tokenOf = (
  { token_env }: { token_env: string | null },
  { name, env }: SecretsOf,
): Token | null => secretIn(token_env, { setting: 'token_env', name, env });
