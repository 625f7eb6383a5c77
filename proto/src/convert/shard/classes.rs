//! Classes of waiting instances, and how many of each fit.

use crate::convert::fields::{list, required};
use crate::convert::{FieldError, FieldProblem, Problems, Wire, siting};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::class::{ClassDigest, ClassFit, InstanceClass, MAX_CLASSES, MOST_A_CLUSTER};
use echelon_core_model::directive::{ClassFits, NamedClasses};
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::ports::PortWishes;
use std::collections::BTreeMap;

/// A class with its digest.
struct NamedClass(ClassDigest, InstanceClass);

impl Wire for NamedClass {
    type Message = wire::NamedClass;

    fn to_wire(&self) -> Self::Message {
        let InstanceClass {
            shape,
            revocable,
            exclusive,
            host_pool,
            ports,
            constraints,
        } = &self.1;
        wire::NamedClass {
            digest: digest_bytes(self.0),
            shape: Some(shape.to_wire()),
            revocable: *revocable,
            exclusive: *exclusive,
            host_pool: host_pool.to_string(),
            ports: ports.iter().map(|port| port.map_or(0, u32::from)).collect(),
            constraints: constraints.iter().map(siting::constraint).collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let mut problems = Problems::default();
        let constraints = siting::read_constraints(message.constraints, "", &mut problems);
        if let Some(first) = problems.0.into_iter().next() {
            let field = first.field.trim_start_matches('.');
            return Err(FieldError::new(field, FieldProblem::Spec(first.problem)));
        }
        let host_pool = HostPoolChoice::parse(&message.host_pool);
        let class = InstanceClass {
            shape: required("shape", message.shape)?,
            revocable: message.revocable,
            exclusive: message.exclusive,
            host_pool: host_pool.map_err(|e| FieldError::new("host_pool", FieldProblem::Id(e)))?,
            ports: ports(&message.ports)?,
            constraints,
        };
        Ok(Self(digest("digest", &message.digest)?, class))
    }
}

impl Wire for NamedClasses {
    type Message = wire::ClassesOrder;

    fn to_wire(&self) -> Self::Message {
        let Self { classes, left_out } = self;
        let named = classes
            .iter()
            .map(|(digest, class)| NamedClass(*digest, class.clone()).to_wire());
        wire::ClassesOrder {
            classes: named.collect(),
            left_out: *left_out,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let classes = bounded("classes", list::<NamedClass>("classes", message.classes)?)?;
        Ok(Self {
            classes: by_digest("classes", classes.into_iter().map(|c| (c.0, c.1)))?,
            left_out: message.left_out,
        })
    }
}

/// How many of a class fit, with its digest.
struct DigestFit(ClassDigest, ClassFit);

impl Wire for DigestFit {
    type Message = wire::ClassFit;

    fn to_wire(&self) -> Self::Message {
        wire::ClassFit {
            digest: digest_bytes(self.0),
            now: self.1.now,
            ever: self.1.ever,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::ClassFit {
            digest: bytes,
            now,
            ever,
        } = message;
        within("ever", ever, MOST_A_CLUSTER)?;
        within("now", now, ever)?;
        Ok(Self(digest("digest", &bytes)?, ClassFit { now, ever }))
    }
}

impl Wire for ClassFits {
    type Message = wire::FitsReport;

    fn to_wire(&self) -> Self::Message {
        let Self {
            revision,
            fits,
            left_out,
        } = self;
        wire::FitsReport {
            revision: *revision,
            fits: fits
                .iter()
                .map(|(digest, fit)| DigestFit(*digest, *fit).to_wire())
                .collect(),
            left_out: *left_out,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let fits = bounded("fits", list::<DigestFit>("fits", message.fits)?)?;
        Ok(Self {
            revision: message.revision,
            fits: by_digest("fits", fits.into_iter().map(|f| (f.0, f.1)))?,
            left_out: message.left_out,
        })
    }
}

fn within(field: &str, number: u64, last: u64) -> Result<(), FieldError> {
    if number <= last {
        return Ok(());
    }
    let problem = FieldProblem::OutOfRange {
        number: number.into(),
        first: 0,
        last: last.into(),
    };
    Err(FieldError::new(field, problem))
}

/// A list that has no more than the most classes.
fn bounded<T>(field: &str, all: Vec<T>) -> Result<Vec<T>, FieldError> {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    within(field, number(all.len()), number(MAX_CLASSES))?;
    Ok(all)
}

fn by_digest<T>(
    field: &str,
    all: impl Iterator<Item = (ClassDigest, T)>,
) -> Result<BTreeMap<ClassDigest, T>, FieldError> {
    let mut out = BTreeMap::new();
    for (digest, value) in all {
        if out.insert(digest, value).is_some() {
            return Err(FieldError::new(field, FieldProblem::Repeated(digest.to_string())));
        }
    }
    Ok(out)
}

fn digest_bytes(digest: ClassDigest) -> Vec<u8> {
    digest.0.to_be_bytes().to_vec()
}

fn digest(field: &str, bytes: &[u8]) -> Result<ClassDigest, FieldError> {
    let wrong = |_| FieldError::new(field, FieldProblem::Digest(bytes.len()));
    Ok(ClassDigest(u128::from_be_bytes(bytes.try_into().map_err(wrong)?)))
}

/// Ports; 0 is any port.
fn ports(numbers: &[u32]) -> Result<PortWishes, FieldError> {
    let read = |number: &u32| {
        let port = u16::try_from(*number).ok();
        let problem = FieldProblem::OutOfRange {
            number: (*number).into(),
            first: 0,
            last: u16::MAX.into(),
        };
        let port = port.ok_or_else(|| FieldError::new("ports", problem))?;
        Ok((port > 0).then_some(port))
    };
    numbers.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fit: wire::ClassFit) -> String {
        let report = wire::FitsReport {
            revision: 1,
            fits: vec![fit],
            left_out: 0,
        };
        ClassFits::from_wire(report).unwrap_err().to_string()
    }

    fn fit(digest: usize, now: u64, ever: u64) -> wire::ClassFit {
        wire::ClassFit {
            digest: vec![7; digest],
            now,
            ever,
        }
    }

    #[test]
    fn numbers_have_their_ranges() {
        assert_eq!(
            refused(fit(16, 3, 2)),
            "field `fits[0].now` has the value 3, outside 0 to 2"
        );
        let most = MOST_A_CLUSTER;
        let beyond = format!(
            "field `fits[0].ever` has the value {}, outside 0 to {most}",
            most + 1
        );
        assert_eq!(refused(fit(16, 0, most + 1)), beyond);
        assert_eq!(
            refused(fit(15, 0, 0)),
            "field `fits[0].digest` has 15 bytes where a digest has 16"
        );
    }

    #[test]
    fn a_list_is_bounded_and_names_each_class_once() {
        let report = |fits: Vec<wire::ClassFit>| {
            let report = wire::FitsReport {
                revision: 1,
                fits,
                left_out: 0,
            };
            ClassFits::from_wire(report)
        };
        let many = |n: u8| {
            (0..n).map(|i| wire::ClassFit {
                digest: vec![i; 16],
                now: 0,
                ever: 1,
            })
        };
        assert_eq!(report(many(64).collect()).unwrap().fits.len(), 64);
        let wrong = report(many(65).collect()).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "field `fits` has the value 65, outside 0 to 64"
        );
        let twice = report(vec![fit(16, 0, 1), fit(16, 0, 1)]).unwrap_err();
        assert_eq!(
            twice.to_string(),
            format!("field `fits` repeats `{}`", "07".repeat(16))
        );
    }

    #[test]
    fn a_class_that_cannot_be_read_says_which_field() {
        let class = |change: fn(&mut wire::NamedClass)| {
            let mut class = wire::NamedClass {
                digest: vec![1; 16],
                shape: Some(Default::default()),
                host_pool: "default".to_owned(),
                ..wire::NamedClass::default()
            };
            change(&mut class);
            let order = wire::ClassesOrder {
                classes: vec![class],
                left_out: 0,
            };
            NamedClasses::from_wire(order).map_err(|e| e.to_string())
        };
        assert!(class(|_| ()).is_ok());
        let problem = |change| class(change).unwrap_err();
        assert_eq!(problem(|c| c.shape = None), "field `classes[0].shape` is missing");
        assert!(
            problem(|c| c.host_pool = "no pool".to_owned())
                .starts_with("field `classes[0].host_pool` is malformed")
        );
        assert_eq!(
            problem(|c| c.ports = vec![65_536]),
            "field `classes[0].ports` has the value 65536, outside 0 to 65535"
        );
        let unknown = problem(|c| {
            c.constraints = vec![crate::echelon::v1::Constraint {
                operator: 99,
                ..Default::default()
            }];
        });
        assert!(
            unknown.starts_with("field `classes[0].constraints[0]"),
            "{unknown}"
        );
    }
}
