"""The asyncio client: Producer, Consumer and Admin, with their return types and errors.

Depends only on `kafkawire` and the standard library, and works on any asyncio event loop. `ottla`
exports the public names. Beside them `errors` and `admin_model` are public; everything else in this
package may change.

The rooms `producer`, `consumer` and `admin` do not import each other. All of them stand on
`network`, and that on the modules beside this file: settings, errors, and values that users see.
"""
