/**
 * A message of the command in the words of the options.
 * @param {string} message
 * @returns {string}
 */
export function inOptions(message: string): string;
/**
 * The word of the command for an option.
 * @param {string} name
 * @returns {string}
 */
export function wordOf(name: string): string;
